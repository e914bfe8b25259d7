//! `gimlet-torch`: the commands of `gimlet` that need libtorch. Users type `gimlet`.

use std::process::ExitCode;

fn main() -> ExitCode {
    gimlet::Cli::new().run_torch()
}
