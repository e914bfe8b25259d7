//! `gimlet checkpoint`: looks at checkpoints, compares and checks them, and converts between formats.

mod convert;
mod diff;
mod ls;
mod metered;
mod show;
mod verify;

use std::time::{Duration, Instant};

use anyhow::anyhow;
use clap::{Args, Subcommand};
use fancy_regex::Regex;

use crate::checkpoint::{ArrayInfo, CheckpointError, Stored, open};
use crate::storage::{Path, StorageError};
use crate::telemetry::Count;

use super::failure::Failure;

/// Work that takes at most this long shows no progress.
const QUIET: Duration = Duration::from_secs(2);

/// Flags of `gimlet checkpoint`.
#[derive(Args, Debug)]
pub struct CheckpointToolArgs {
    /// The tool.
    #[command(subcommand)]
    pub tool: CheckpointCommand,
}

/// A tool for checkpoints. Each takes any format that Gimlet reads, here or in a bucket.
#[derive(Debug, Subcommand)]
pub enum CheckpointCommand {
    /// List the checkpoints of a folder: step, format, size, age, and whether they are whole.
    Ls(ls::LsArgs),
    /// Print the tree of a checkpoint's arrays: shapes, types, sizes, and norms if asked for.
    Show(show::ShowArgs),
    /// Compare two checkpoints; ends with status 1 if they differ.
    Diff(diff::DiffArgs),
    /// Read checkpoints and name every damaged file; ends with status 1 if there is one.
    Verify(verify::VerifyArgs),
    /// Write a checkpoint, or each of a folder, in another format or type.
    Convert(convert::ConvertArgs),
}

impl CheckpointToolArgs {
    /// Runs the tool.
    ///
    /// # Errors
    /// Paths that hold no checkpoint, damage, and a full disk.
    pub fn run(&self) -> Result<(), Failure> {
        match &self.tool {
            CheckpointCommand::Ls(args) => ls::run(args),
            CheckpointCommand::Show(args) => show::run(args),
            CheckpointCommand::Diff(args) => diff::run(args),
            CheckpointCommand::Verify(args) => verify::run(args),
            CheckpointCommand::Convert(args) => convert::run(args),
        }
    }
}

fn failure(error: CheckpointError) -> Failure {
    if error.is_users() { Failure::usage(error) } else { Failure::world(error) }
}

fn storage_failure(error: StorageError) -> Failure {
    failure(error.into())
}

fn parse_path(text: &str) -> Result<Path, Failure> {
    Path::parse(text).map_err(storage_failure)
}

/// Opens the checkpoint at a path; the error for a path with several lists them.
fn open_at(text: &str) -> Result<Box<dyn Stored>, Failure> {
    let path = parse_path(text)?;
    open(&path).map_err(|error| match error {
        CheckpointError::NotACheckpoint { path, reason } => {
            // Commands have no modes; the list of the folder is the most useful hint.
            let reason = reason.replace(", or use mode = 'latest'", "");
            Failure::usage(anyhow!(
                "`{path}` is not a checkpoint: {reason}; see `gimlet checkpoint ls`"
            ))
        }
        other => failure(other),
    })
}

/// A filter for arrays by name.
struct Filter(Option<Regex>);

impl Filter {
    fn new(pattern: Option<&str>) -> Result<Self, Failure> {
        let compiled = pattern.map(Regex::new).transpose();
        compiled.map(Self).map_err(|error| Failure::usage(anyhow!("--filter: {error}")))
    }

    fn arrays<'a>(&self, stored: &'a dyn Stored) -> Vec<ArrayInfo<'a>> {
        let matches = |array: &ArrayInfo<'_>| {
            self.0.as_ref().is_none_or(|regex| regex.is_match(array.name).unwrap_or(false))
        };
        stored.leaves().into_iter().filter(matches).collect()
    }

    /// Does the same as [`Filter::arrays`], but refuses a pattern that matches no name.
    fn some_arrays<'a>(&self, stored: &'a dyn Stored) -> Result<Vec<ArrayInfo<'a>>, Failure> {
        let found = self.arrays(stored);
        match &self.0 {
            Some(regex) if found.is_empty() => Err(Failure::usage(anyhow!(
                "--filter: no array's name contains `{}`, of {} in `{}`",
                regex.as_str(),
                stored.leaves().len(),
                stored.path()
            ))),
            _ => Ok(found),
        }
    }
}

/// Bytes that an array takes in memory.
fn array_bytes(array: &ArrayInfo<'_>) -> u64 {
    (num_values(array) as usize * array.dtype.size()) as u64
}

fn num_values(array: &ArrayInfo<'_>) -> u64 {
    array.shape.iter().product::<usize>() as u64
}

/// Formats bytes as `1.5 MB`, with three significant digits.
fn size(bytes: u64) -> String {
    let mut value = bytes as f64;
    let mut unit = "B";
    for larger in ["kB", "MB", "GB", "TB"] {
        if value < 999.5 {
            break;
        }
        (value, unit) = (value / 1000.0, larger);
    }
    let digits = match (unit, value) {
        ("B", _) | (_, 99.95..) => 0,
        (_, 9.995..) => 1,
        _ => 2,
    };
    format!("{value:.digits$} {unit}")
}

/// Formats a shape as gin and Python write it: `[512, 64]`.
fn shape(array: &ArrayInfo<'_>) -> String {
    format!("{:?}", array.shape)
}

/// A finite number as JSON; others, for which JSON has no name, as null.
fn json_number(value: f64) -> serde_json::Value {
    serde_json::Number::from_f64(value).map_or(serde_json::Value::Null, Into::into)
}

/// A line that shows how many megabytes of work are done, once the work takes longer than two
/// seconds.
struct Meter {
    name: String,
    total: Option<u64>,
    done: u64,
    start: Instant,
    count: Option<Count>,
}

impl Meter {
    fn new(name: &str, total: Option<u64>) -> Self {
        let name = format!("{name} (MB)");
        Self { name, total, done: 0, start: Instant::now(), count: None }
    }

    fn add(&mut self, bytes: u64) {
        const MEGABYTE: u64 = 1_000_000;
        self.done = self.done.saturating_add(bytes);
        if self.start.elapsed() < QUIET {
            return;
        }
        let total = self.total.map(|total| total.div_ceil(MEGABYTE));
        let count = self.count.get_or_insert_with(|| Count::new(&self.name, total));
        count.set(self.done / MEGABYTE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_three_digits_that_count() {
        let found = [0, 999, 1_000, 12_345, 999_400, 999_600, 3_070_000_000].map(size);
        let expected = ["0 B", "999 B", "1.00 kB", "12.3 kB", "999 kB", "1.00 MB", "3.07 GB"];
        assert_eq!(found, expected);
    }
}
