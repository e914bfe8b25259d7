//! The flags of `gimlet launch`, named as those of torchrun.

use clap::Args;

/// torchrun's default of --master_port.
const MASTER_PORT: u16 = 29_500;

/// Arguments of `gimlet launch`, named as those of torchrun.
#[derive(Args, Debug)]
#[command(override_usage = "gimlet launch [OPTIONS] COMMAND [FLAGS OF COMMAND]...")]
pub struct LaunchArgs {
    /// Processes on this machine, and on every other one; by default one for each visible GPU.
    #[arg(long = "nproc_per_node", alias = "nproc-per-node", value_name = "N")]
    pub nproc_per_node: Option<usize>,
    /// Machines, or the least and the most of them; on each `gimlet launch` is run, with the same
    /// flags.
    #[arg(long = "nnodes", value_name = "N|MIN:MAX", default_value = "1")]
    pub nnodes: String,
    /// Place of this machine among them, from 0, for `--rdzv_backend=static`; otherwise they agree on an order.
    #[arg(long = "node_rank", alias = "node-rank", value_name = "R")]
    pub node_rank: Option<usize>,
    /// One of the machines, and a free port of it; needed with several machines.
    #[arg(long = "rdzv_endpoint", alias = "rdzv-endpoint", value_name = "HOST:PORT")]
    pub rdzv_endpoint: Option<String>,
    /// The machine with --node_rank=0, in place of --rdzv_endpoint.
    #[arg(
        long = "master_addr",
        alias = "master-addr",
        value_name = "HOST",
        conflicts_with = "rdzv_endpoint"
    )]
    pub master_addr: Option<String>,
    /// A free port of --master_addr.
    #[arg(
        long = "master_port",
        alias = "master-port",
        value_name = "PORT",
        default_value_t = MASTER_PORT,
        requires = "master_addr"
    )]
    pub master_port: u16,
    /// The way in which several machines meet, of those that torchrun knows; `c10d` by default.
    #[arg(long = "rdzv_backend", alias = "rdzv-backend", value_name = "NAME")]
    pub rdzv_backend: Option<String>,
    /// A name of the run, the same on several machines; torchrun's `none` by default.
    #[arg(long = "rdzv_id", alias = "rdzv-id", value_name = "NAME")]
    pub rdzv_id: Option<String>,
    /// Settings of torchrun for several machines, such as `join_timeout=600,last_call_timeout=30` in seconds.
    #[arg(long = "rdzv_conf", alias = "rdzv-conf", value_name = "NAME=VALUE,...")]
    pub rdzv_conf: Option<String>,
    /// The name by which other machines reach this one, if they do not know its own.
    #[arg(long = "local_addr", alias = "local-addr", value_name = "HOST")]
    pub local_addr: Option<String>,
    /// Times that all processes are started again after one has failed; of several machines each counts its own failures.
    #[arg(long = "max_restarts", alias = "max-restarts", value_name = "K", default_value_t = 0)]
    pub max_restarts: usize,
    /// Seconds that the other processes of one machine have to end after one has failed, before they are killed; 30 by
    /// default.
    #[arg(long = "grace", value_name = "SECONDS")]
    pub grace: Option<u64>,
    /// The command, `train`, `eval`, `infer`, `t5_mesh_transformer`, `t5_experiments`, `cache` or `bench train_step`, and its flags.
    #[arg(value_name = "COMMAND", last = true, required = true)]
    pub command: Vec<String>,
}

impl LaunchArgs {
    /// Returns the address where the machines meet.
    pub fn meeting_place(&self) -> Option<String> {
        let of_master = || self.master_addr.as_ref().map(|host| (host, self.master_port));
        let joined = |(host, port): (&String, u16)| match host.contains(':') {
            true => format!("[{host}]:{port}"),
            false => format!("{host}:{port}"),
        };
        self.rdzv_endpoint.clone().or_else(|| of_master().map(joined))
    }
}
