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
    let differences = differences(&[&a, &b]);
    write(&differences.iter().map(line).collect::<String>())?;
    if differences.is_empty() { Ok(()) } else { Err(Failure::Said) }
}

/// A path with different values.
pub struct Difference<'a> {
    /// The path from the root.
    pub path: &'a str,
    /// For each configuration, the value, if it has the path.
    pub values: Vec<Option<&'a str>>,
}

/// Returns the paths at which configurations differ; for a part of some of them only, the path of its head.
pub fn differences<'a>(trees: &[&'a BTreeMap<String, String>]) -> Vec<Difference<'a>> {
    let paths: BTreeSet<&str> =
        trees.iter().flat_map(|tree| tree.keys()).map(String::as_str).collect();
    let mut out = Vec::new();
    let mut replaced: Option<&str> = None;
    for path in paths {
        if replaced.is_some_and(|head| is_below(path, head)) {
            continue;
        }
        let values: Vec<Option<&str>> =
            trees.iter().map(|tree| tree.get(path).map(String::as_str)).collect();
        if values.windows(2).all(|pair| pair[0] == pair[1]) {
            continue;
        }
        // Values below a replaced configurable differ because of it.
        let is_replaced = values.iter().flatten().any(|value| value.starts_with('@'));
        replaced = is_replaced.then_some(path);
        out.push(Difference { path, values });
    }
    out
}

fn line(difference: &Difference<'_>) -> String {
    let value = |side: usize| difference.values[side].unwrap_or("(nothing)");
    format!("{}: {} -> {}\n", difference.path, value(0), value(1))
}

fn is_below(path: &str, head: &str) -> bool {
    path.strip_prefix(head).is_some_and(|rest| rest.starts_with(['.', '[']))
}
