//! Lists everything in a folder of checkpoints for people, including damaged and unfinished
//! checkpoints. [`super::steps`] lists those that a run may use.

use std::collections::BTreeMap;
use std::time::SystemTime;

use super::error::CheckpointError;
use super::format::Format;
use super::marks::{
    CHECKPOINT_FILE, ORBAX_BEGINNING, PINNED_FILE, TRAINER_BEST, TRAINER_FILE, TRAINER_SUFFIX,
    step_of, step_of_bundle, step_of_trainer,
};
use super::names::hugging_face::Families;
use super::open::{is_marked, open, recognize};
use super::unfinished;
use gimlet_storage::{FolderEntry, Path};

/// Marks in the names of unfinished checkpoints: T5X's and Gimlet's, and Orbax's.
const TEMPORARY_MARKS: [&str; 2] = [".tmp-", ".orbax-checkpoint-tmp"];

/// A checkpoint as a listing shows it.
#[derive(Clone, Debug, PartialEq)]
pub struct Listed {
    /// Path of the checkpoint.
    pub path: Path,
    /// Step of the checkpoint, if its name or its arrays contain one.
    pub step: Option<u64>,
    /// Format of the checkpoint; `None` while it is unfinished.
    pub format: Option<Format>,
    /// Number of files.
    pub num_files: usize,
    /// Total size of the files in bytes.
    pub bytes: u64,
    /// Time at which the checkpoint was finished.
    pub modified: Option<SystemTime>,
    /// Whether a file `PINNED` protects the checkpoint.
    pub is_pinned: bool,
    /// Whether the checkpoint can be used.
    pub condition: Condition,
}

impl Listed {
    /// Whether its writer marked the checkpoint as unfinished, by its name or a file in it.
    ///
    /// # Errors
    /// The checkpoint cannot be read.
    pub fn is_unfinished(&self) -> Result<bool, CheckpointError> {
        Ok(is_temporary(&self.path) || unfinished::is_unfinished(&self.path)?)
    }
}

/// Whether a checkpoint can be used, as far as names and sizes of files tell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Condition {
    /// Everything is there.
    Whole,
    /// The writer is still running, or was killed.
    HalfWritten,
    /// A part is missing or wrong, as described.
    Damaged(String),
    /// Gimlet cannot read the checkpoint, for this reason.
    Unreadable(String),
}

/// Returns the checkpoints of a folder by step, or the checkpoint at the path itself.
///
/// # Errors
/// There is nothing at the path, or it cannot be listed. Damage of a single checkpoint is part of
/// the result.
pub fn list(path: &Path, families: Families) -> Result<Vec<Listed>, CheckpointError> {
    if !path.is_dir()? {
        return Ok(vec![listed(path, path.file_name(), families)?]);
    }
    let mut found = Vec::new();
    for FolderEntry { path: entry, .. } in path.entries()? {
        let name = entry.file_name();
        if let Some(prefix) =
            name.strip_suffix(".index").filter(|prefix| step_of_bundle(prefix).is_some())
        {
            found.extend(listed_beside(&entry, &path.join(prefix), prefix, families)?);
        } else if step_of(&entry).is_some() || is_temporary(&entry) || is_of_trainer(&entry)? {
            found.extend(listed_beside(&entry, &entry, name, families)?);
        }
    }
    if found.is_empty() && is_marked(path)? {
        found.push(listed(path, path.file_name(), families)?);
    }
    found.sort_by_key(|one: &Listed| (one.step, one.condition == Condition::HalfWritten));
    Ok(found)
}

/// Like [`listed`]; `None` for a checkpoint that a concurrent run renames or deletes in the
/// meantime.
fn listed_beside(
    entry: &Path,
    path: &Path,
    name: &str,
    families: Families,
) -> Result<Option<Listed>, CheckpointError> {
    match listed(path, name, families) {
        Err(CheckpointError::Storage(error)) if error.is_not_found() => Ok(None),
        Ok(one) if one.condition != Condition::Whole && !entry.exists()? => Ok(None),
        one => one.map(Some),
    }
}

fn listed(path: &Path, name: &str, families: Families) -> Result<Listed, CheckpointError> {
    let sizes = file_sizes(path)?;
    let mut one = Listed {
        step: TEMPORARY_MARKS
            .iter()
            .find_map(|mark| Some(name.split_once(mark)?.0))
            .and_then(|finished| Path::parse(finished).ok())
            .map_or_else(|| step_of(path), |finished| step_of(&finished))
            .or_else(|| step_of_bundle(name.trim_end_matches(".index")))
            .or_else(|| step_of_trainer(name)),
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
    one.condition = match open(path, families) {
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

/// Whether a path has the name of a Trainer's checkpoint: `model_N.pth`, `model_best.pth`, or a folder of Accelerate's.
fn is_of_trainer(path: &Path) -> Result<bool, CheckpointError> {
    let name = path.file_name();
    let is_named = step_of_trainer(name).is_some() || name.starts_with(TRAINER_BEST);
    Ok(is_named && (name.ends_with(TRAINER_SUFFIX) || path.join(TRAINER_FILE).exists()?))
}

fn is_temporary(path: &Path) -> bool {
    let name = path.file_name();
    TEMPORARY_MARKS.iter().any(|mark| {
        let finished = name.split_once(mark).and_then(|(before, _)| Path::parse(before).ok());
        finished.is_some_and(|finished| step_of(&finished).is_some())
    })
}

/// Returns the files of a checkpoint with their sizes; files beside each other that share a prefix
/// form one TensorFlow checkpoint.
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

/// The time of the file that completed the checkpoint, since stores have no times of folders; some
/// servers have no times at all.
fn modified(path: &Path, name: &str) -> Option<SystemTime> {
    let beside = path.parent().map(|folder| folder.join(&format!("{name}.index")));
    let inside = [CHECKPOINT_FILE, ORBAX_BEGINNING].map(|file| Some(path.join(file)));
    let candidates = inside.into_iter().chain([Some(path.clone()), beside]);
    candidates.flatten().find_map(|file| file.modified().ok())
}
