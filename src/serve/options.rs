//! Flags of the server.

use std::net::IpAddr;

use clap::Args;

/// The address of a server, and the limits that protect it and its users from each other.
#[derive(Args, Clone, Debug)]
pub struct ServeOptions {
    /// The address to listen at. Others than this machine reach 0.0.0.0: give a token too.
    #[arg(long = "host", value_name = "ADDRESS", default_value = "127.0.0.1")]
    pub host: IpAddr,
    /// The port to listen at; 0 for any that is free.
    #[arg(long = "port", value_name = "PORT", default_value_t = 8000)]
    pub port: u16,
    /// A file with a token that every request must carry: `Authorization: Bearer TOKEN`.
    #[arg(long = "token_file", value_name = "FILE")]
    pub token_file: Option<String>,
    /// Milliseconds that a text waits for others to share its batch.
    #[arg(long = "max_wait_ms", value_name = "MS", default_value_t = 5)]
    pub max_wait_ms: u64,
    /// Texts that may wait; a request beyond them is refused with 429.
    #[arg(long = "queue", value_name = "N", default_value_t = 1024)]
    pub queue: usize,
    /// Seconds after which a request is given up with 504.
    #[arg(long = "timeout_secs", value_name = "SECONDS", default_value_t = 60)]
    pub timeout_secs: u64,
    /// Greatest size of a request; a larger one is refused with 413.
    #[arg(long = "max_body_bytes", value_name = "BYTES", default_value_t = 1 << 20)]
    pub max_body_bytes: usize,
    /// End when standard input does: with the program that started this one and holds the other end.
    #[arg(long = "end_with_stdin")]
    pub end_with_stdin: bool,
}
