//! `gimlet`: checks what the user asks for, and hands work on tensors to `gimlet-torch`.

use std::process::ExitCode;

fn main() -> ExitCode {
    gimlet::Cli::new().run_without_torch()
}
