//! The runs that folders hold, and what a sweep remembers of them.

use anyhow::anyhow;

use crate::run::checkpoint::{parse_path, storage_failure};
use crate::run::failure::Failure;
use crate::run::sweep::{Recorded, SWEEP_DIR, recorded};
use crate::storage::{Path, StorageError};

/// The folders and the file of which a run has at least one.
const PARTS: [&str; 4] = ["config.gin", "train", "training_eval", "inference_eval"];
/// The greatest number of folders between a given one and a run in it.
const MOST_LEVELS: usize = 8;

/// A run and its place.
#[derive(Clone, Debug, PartialEq)]
pub struct FoundRun {
    /// Its MODEL_DIR.
    pub path: Path,
    /// The point of a sweep that it is.
    pub point: Option<FoundPoint>,
}

/// A point of a sweep.
#[derive(Clone, Debug, PartialEq)]
pub struct FoundPoint {
    /// The folder of the sweep.
    pub sweep: Path,
    /// The memory of the sweep.
    pub recorded: Recorded,
}

/// Returns the runs at paths: a run's own MODEL_DIR, or a folder with runs at any depth. The points of a sweep come in its order, others
/// by their names.
///
/// # Errors
/// A path that is neither, or storage that fails.
pub fn runs_at(paths: &[String]) -> Result<Vec<FoundRun>, Failure> {
    let mut runs = Vec::new();
    for text in paths {
        let path = parse_path(text)?;
        check(&path)?;
        let mut found = Vec::new();
        collect(&path, None, MOST_LEVELS, &mut found).map_err(storage_failure)?;
        if found.is_empty() {
            return Err(Failure::usage(anyhow!(
                "`{path}` is not the MODEL_DIR of a run, and holds none: a run has one of {}, checkpoint_N; name the folder in which \
                 they lie, or one that holds such folders",
                PARTS.join(", ")
            )));
        }
        let place = |run: &FoundRun| {
            let point = run.point.as_ref();
            (point.map(|it| (it.sweep.to_string(), it.recorded.index)), run.path.to_string())
        };
        found.sort_by_key(place);
        runs.append(&mut found);
    }
    Ok(runs)
}

fn check(path: &Path) -> Result<(), Failure> {
    if path.is_dir().map_err(storage_failure)? {
        return Ok(());
    }
    let is_file = path.exists().map_err(storage_failure)?;
    let found = if is_file { "is a file" } else { "does not exist" };
    Err(Failure::usage(anyhow!(
        "`{path}` {found}: expected the MODEL_DIR of a run, or a folder with runs"
    )))
}

fn found_point(sweep: &Path, path: &Path) -> Result<Option<FoundPoint>, StorageError> {
    let recorded = recorded(sweep, path.relative_to(sweep))?;
    Ok(recorded.map(|recorded| FoundPoint { sweep: sweep.clone(), recorded }))
}

/// Adds the runs in a folder; `sweep` is the folder of the sweep to which they belong.
fn collect(
    path: &Path,
    sweep: Option<&Path>,
    levels: usize,
    found: &mut Vec<FoundRun>,
) -> Result<(), StorageError> {
    let entries = path.entries()?;
    let is_part = |name: &str| PARTS.contains(&name) || name.starts_with("checkpoint_");
    if entries.iter().any(|entry| is_part(entry.path.file_name())) {
        let point = sweep.map(|all| found_point(all, path)).transpose()?.flatten();
        found.push(FoundRun { path: path.clone(), point });
        return Ok(());
    }
    if levels == 0 {
        return Ok(());
    }
    let folders = || entries.iter().filter(|entry| entry.is_dir).map(|entry| &entry.path);
    let sweep =
        if folders().any(|path| path.file_name() == SWEEP_DIR) { Some(path) } else { sweep };
    folders()
        .filter(|path| path.file_name() != SWEEP_DIR)
        .try_for_each(|path| collect(path, sweep, levels - 1, found))
}
