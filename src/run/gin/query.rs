//! `gimlet gin query`: prints one bound value, as gin's `query_parameter` gives it.

use anyhow::anyhow;
use clap::Args;

use crate::gin::{Failed, query};
use crate::run::failure::Failure;

use super::project::ProjectArgs;
use super::write;

/// Flags of `gimlet gin query`.
#[derive(Args, Debug)]
pub struct QueryArgs {
    /// `scope/selector.argument`, `%MACRO`, or a constant.
    #[arg(value_name = "KEY")]
    key: String,
    #[command(flatten)]
    project: ProjectArgs,
}

/// Prints the value of this scope alone, with references not evaluated and without defaults.
pub fn run(args: &QueryArgs, schemas: &[String]) -> Result<(), Failure> {
    let project = args.project.load(schemas)?.readable()?;
    match query(&args.key, &project.loaded, &project.registry) {
        Ok(value) => write(&format!("{value}\n")),
        Err(Failed(message)) => Err(Failure::usage(anyhow!(message))),
    }
}
