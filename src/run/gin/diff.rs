//! `gimlet gin diff`: prints the differences in meaning between two configurations.
//!
//! It compares the values that the root gets, with macros and references resolved, so that two
//! files that express the same in other words are equal.

use std::collections::BTreeMap;

use clap::Args;

use crate::gin::{differences, tree};
use crate::run::failure::Failure;

use super::project::{Project, ReadingArgs};
use super::write;

/// Flags of `gimlet gin diff`.
#[derive(Args, Debug)]
pub struct DiffArgs {
    /// Gin file, or the MODEL_DIR of a run.
    a: String,
    /// The other one.
    b: String,
    #[command(flatten)]
    reading: ReadingArgs,
}

/// Prints the differences; [`Failure::Said`] if there are any.
pub fn run(args: &DiffArgs, schemas: &[String]) -> Result<(), Failure> {
    let lines = |file: &String| -> Result<BTreeMap<String, String>, Failure> {
        let project =
            Project::load(std::slice::from_ref(file), &args.reading, schemas)?.readable()?;
        Ok(tree(&project.loaded.config, &project.registry, project.root()?))
    };
    let (a, b) = (lines(&args.a)?, lines(&args.b)?);
    let differences = differences(&[&a, &b]);
    write(&differences.iter().map(|it| format!("{it}\n")).collect::<String>())?;
    if differences.is_empty() { Ok(()) } else { Err(Failure::Said) }
}
