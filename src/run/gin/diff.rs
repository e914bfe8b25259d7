//! `gimlet gin diff`: prints the differences in meaning between two configurations.
//!
//! It compares the values that the root gets, with macros and references resolved, so that two
//! files that express the same in other words are equal.

use std::collections::{BTreeMap, BTreeSet};

use clap::Args;

use crate::gin::tree;
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
    let differences = differences(&a, &b);
    write(&differences)?;
    if differences.is_empty() { Ok(()) } else { Err(Failure::Said) }
}

/// Returns one line for each path with different values; for a part on one side only, the line of
/// its head.
fn differences(a: &BTreeMap<String, String>, b: &BTreeMap<String, String>) -> String {
    let paths: BTreeSet<&String> = a.keys().chain(b.keys()).collect();
    let mut out = String::new();
    let mut replaced: Option<&str> = None;
    for path in paths {
        if replaced.is_some_and(|head| is_below(path, head)) {
            continue;
        }
        match (a.get(path), b.get(path)) {
            (Some(a), Some(b)) if a == b => continue,
            (Some(a), Some(b)) => out.push_str(&format!("{path}: {a} -> {b}\n")),
            (Some(a), None) => out.push_str(&format!("{path}: {a} -> (nothing)\n")),
            (None, Some(b)) => out.push_str(&format!("{path}: (nothing) -> {b}\n")),
            (None, None) => {}
        }
        // Values below a replaced configurable differ because of it.
        replaced = [a.get(path), b.get(path)]
            .iter()
            .flatten()
            .any(|value| value.starts_with('@'))
            .then_some(path);
    }
    out
}

fn is_below(path: &str, head: &str) -> bool {
    path.strip_prefix(head).is_some_and(|rest| rest.starts_with(['.', '[']))
}
