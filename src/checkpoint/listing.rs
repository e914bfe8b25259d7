//! Everything in a folder of checkpoints, also what is damaged or half-written: for people to look at.
//! What a run may use is told by [`super::steps`].

use std::collections::BTreeMap;
use std::time::SystemTime;

use super::error::CheckpointError;
use super::format::Format;
use super::native::CHECKPOINT_FILE;
use super::open::{ORBAX_BEGINNING, is_marked, open, recognize};
use super::retention::PINNED_FILE;
use super::steps::{step_of, step_of_bundle};
use super::unfinished;
use crate::storage::{Entry, Path};

/// What the names of half-written checkpoints hold: T5X's and ours, and Orbax's.
const TEMPORARY_MARKS: [&str; 2] = [".tmp-", ".orbax-checkpoint-tmp"];

/// A checkpoint as a listing shows it.
#[derive(Clone, Debug, PartialEq)]
pub struct Listed {
    /// Where it lies.
    pub path: Path,
    /// Its step, where its name or its arrays tell one.
    pub step: Option<u64>,
    /// Its format; `None` while it is half-written.
    pub format: Option<Format>,
    /// The number of its files.
    pub num_files: usize,
    /// The sum of their sizes.
    pub bytes: u64,
    /// When it was finished.
    pub modified: Option<SystemTime>,
    /// Whether a file `PINNED` keeps it.
    pub is_pinned: bool,
    /// Whether it can be used.
    pub condition: Condition,
}

impl Listed {
    /// Whether its writer said that it is not finished, by its name or a mark in it.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn is_unfinished(&self) -> Result<bool, CheckpointError> {
        Ok(is_temporary(&self.path) || unfinished::is_unfinished(&self.path)?)
    }
}

/// Whether a checkpoint can be used, as far as names and sizes of files tell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Condition {
    /// Everything is there.
    Whole,
    /// Its writer is at work, or was killed.
    HalfWritten,
    /// This is missing or wrong.
    Damaged(String),
    /// It is nothing that Gimlet reads, for this reason.
    Unreadable(String),
}

/// The checkpoints of a folder by step; or the one that the path itself is.
///
/// # Errors
/// There is nothing at the path, or it cannot be listed. What is wrong with one checkpoint is part of
/// the result.
pub fn list(path: &Path) -> Result<Vec<Listed>, CheckpointError> {
    if !path.is_dir()? {
        return Ok(vec![listed(path, path.file_name())?]);
    }
    let mut found = Vec::new();
    for Entry { path: entry, .. } in path.entries()? {
        let name = entry.file_name();
        if let Some(prefix) =
            name.strip_suffix(".index").filter(|prefix| step_of_bundle(prefix).is_some())
        {
            found.extend(listed_beside(&entry, &path.join(prefix), prefix)?);
        } else if step_of(&entry).is_some() || is_temporary(&entry) {
            found.extend(listed_beside(&entry, &entry, name)?);
        }
    }
    if found.is_empty() && is_marked(path)? {
        found.push(listed(path, path.file_name())?);
    }
    found.sort_by_key(|one: &Listed| (one.step, one.condition == Condition::HalfWritten));
    Ok(found)
}

/// As [`listed`]; `None` for what a run beside renames or deletes meanwhile.
fn listed_beside(entry: &Path, path: &Path, name: &str) -> Result<Option<Listed>, CheckpointError> {
    match listed(path, name) {
        Err(CheckpointError::Storage(error)) if error.is_not_found() => Ok(None),
        Ok(one) if one.condition != Condition::Whole && !entry.exists()? => Ok(None),
        one => one.map(Some),
    }
}

fn listed(path: &Path, name: &str) -> Result<Listed, CheckpointError> {
    let sizes = file_sizes(path)?;
    let mut one = Listed {
        step: TEMPORARY_MARKS
            .iter()
            .find_map(|mark| Some(name.split_once(mark)?.0))
            .and_then(|finished| Path::parse(finished).ok())
            .map_or_else(|| step_of(path), |finished| step_of(&finished))
            .or_else(|| step_of_bundle(name.trim_end_matches(".index"))),
        format: None,
        num_files: sizes.len(),
        bytes: sizes.values().sum(),
        modified: modified(path, name),
        is_pinned: sizes.contains_key(PINNED_FILE),
        condition: Condition::HalfWritten,
        path: path.clone(),
    };
    let is_half = || -> Result<bool, CheckpointError> {
        Ok(!is_marked(path)? || unfinished::is_unfinished(path)?)
    };
    if is_temporary(path) || (path.is_dir()? && is_half()?) {
        return Ok(one);
    }
    one.condition = match open(path) {
        Ok(stored) => {
            one.format = Some(stored.format());
            one.step = one.step.or_else(|| stored.step().ok().filter(|step| *step > 0));
            let mut misfits = stored.misfits(&sizes);
            match misfits.is_empty() {
                true => Condition::Whole,
                false => Condition::Damaged(misfits.remove(0)),
            }
        }
        Err(error) => {
            one.format = recognize(path).ok();
            match error {
                CheckpointError::Storage(error) => return Err(error.into()),
                CheckpointError::Damaged { reason, .. } => Condition::Damaged(reason),
                other => Condition::Unreadable(other.to_string()),
            }
        }
    };
    Ok(one)
}

fn is_temporary(path: &Path) -> bool {
    let name = path.file_name();
    TEMPORARY_MARKS.iter().any(|mark| {
        let finished = name.split_once(mark).and_then(|(before, _)| Path::parse(before).ok());
        finished.is_some_and(|finished| step_of(&finished).is_some())
    })
}

/// The files of a checkpoint with their sizes; those beside each other that share a prefix are one of
/// TensorFlow.
///
/// # Errors
/// There is nothing at the path, or it cannot be listed.
pub fn file_sizes(path: &Path) -> Result<BTreeMap<String, u64>, CheckpointError> {
    if path.is_dir()? {
        return Ok(path.sizes()?);
    }
    if path.exists()? {
        return Ok([(path.file_name().to_string(), path.size()?)].into());
    }
    let mut sizes = BTreeMap::new();
    for file in path.siblings()? {
        sizes.insert(file.file_name().to_string(), file.size()?);
    }
    if sizes.is_empty() {
        path.open()?;
    }
    Ok(sizes)
}

/// That of the file that finished it, for stores know no times of folders; some servers know none at all.
fn modified(path: &Path, name: &str) -> Option<SystemTime> {
    let beside = path.parent().map(|folder| folder.join(&format!("{name}.index")));
    let inside = [CHECKPOINT_FILE, ORBAX_BEGINNING].map(|file| Some(path.join(file)));
    let candidates = inside.into_iter().chain([Some(path.clone()), beside]);
    candidates.flatten().find_map(|file| file.modified().ok())
}
