//! Gimlet with an optimizer of one's own: all commands of `gimlet`, whose gin files may also name
//! `my_optimizers.SignSgd`.

mod sign_sgd;

use std::process::ExitCode;

use sign_sgd::SignSgd;

fn main() -> ExitCode {
    gimlet::Cli::new().register::<SignSgd>().run()
}
