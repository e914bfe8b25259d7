//! Gimlet with an optimizer and a model of one's own: all commands of `gimlet`, whose gin files may also name
//! `my_optimizers.SignSgd` and `my_models.MaskedEncoder`.

mod my_model;
mod my_optimizer;

use std::process::ExitCode;

use my_model::MaskedEncoder;
use my_optimizer::SignSgd;

fn main() -> ExitCode {
    gimlet::Cli::new().register::<SignSgd>().register::<MaskedEncoder>().run()
}
