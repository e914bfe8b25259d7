//! Names of the files and folders of checkpoints, and what they say of a checkpoint: its step,
//! its format, and whether it is finished. No file is parsed.

use super::error::CheckpointError;
use gimlet_storage::Path;

/// The file that makes a folder a checkpoint.
pub(crate) const CHECKPOINT_FILE: &str = "checkpoint";

/// The file of Gimlet's checksums, relative to the checkpoint.
pub(crate) const CHECKSUMS_FILE: &str = "gimlet/checksums.json";

/// The mark of a checkpoint that a process is writing or removing, relative to the checkpoint.
pub(crate) const UNFINISHED_FILE: &str = "gimlet/unfinished.json";

/// A file with this name in a checkpoint protects the checkpoint from removal.
pub(crate) const PINNED_FILE: &str = "PINNED";

/// Prefix of the names of data positions, in a checkpoint and in its folder `gimlet`.
pub const DATASET_PREFIX: &str = "train_ds";

/// Suffix of Gimlet's temporary folders, which distinguishes them from T5X's.
pub(crate) const TEMPORARY_MARK: &str = ".gimlet";

/// Prefix of the names of T5X's and Orbax's checkpoints.
const PREFIX: &str = "checkpoint_";

/// Prefix of the names of the checkpoints of t5-experiments' Trainer, and the ending of its files.
const TRAINER_PREFIX: &str = "model_";
pub(crate) const TRAINER_SUFFIX: &str = ".pth";

/// The name of its best checkpoint, without the ending of a file.
pub(crate) const TRAINER_BEST: &str = "model_best";

/// The file that the same Trainer writes last into a checkpoint of Accelerate's, which is a folder.
pub(crate) const TRAINER_FILE: &str = "trainer.pckl";

/// Prefix of the names of TensorFlow's checkpoints.
const BUNDLE_PREFIX: &str = "model.ckpt-";

/// Files that mark Orbax checkpoints: every Orbax checkpoint has one of them.
pub(crate) const ORBAX_MARKS: [&str; 8] = [
    "_METADATA",
    "state/_METADATA",
    "_CHECKPOINT_METADATA",
    "manifest.ocdbt",
    // Files of Orbax versions without metadata.
    "state/manifest.ocdbt",
    "state/checkpoint",
    // Files of a single tree from a CheckpointManager whose own metadata were not copied.
    "default/_METADATA",
    "default/manifest.ocdbt",
];

/// The folder of an Orbax checkpoint in which T5X stores the arrays.
pub(crate) const ORBAX_ITEM: &str = "state";

/// The one of Orbax's marks that exists from the beginning.
pub(crate) const ORBAX_BEGINNING: &str = "_CHECKPOINT_METADATA";

/// The last file that Orbax writes on Google Cloud Storage, where it cannot rename folders.
pub(crate) const ORBAX_END: &str = "commit_success.txt";

/// Whether Orbax has finished the checkpoint in this folder, according to its files. Outside Google
/// Cloud Storage, Orbax renames the folder when it has finished.
pub(crate) fn has_finished_orbax(dir: &Path) -> Result<bool, CheckpointError> {
    Ok(has_arrays(dir)? && (!is_ended_by_file(dir) || dir.join(ORBAX_END).exists()?))
}

/// Whether Orbax marks the end of a checkpoint in this folder by a last file.
pub(crate) fn is_ended_by_file(dir: &Path) -> bool {
    dir.as_str().starts_with("gs://") && !dir.is_on_disk()
}

/// Whether Orbax has begun a checkpoint in this folder, and may still be writing it.
pub(crate) fn is_half_written_orbax(dir: &Path) -> Result<bool, CheckpointError> {
    Ok(has_any(dir, &ORBAX_MARKS)? && !has_finished_orbax(dir)?)
}

/// Whether Orbax has described arrays in the folder, or in any folder directly below.
fn has_arrays(dir: &Path) -> Result<bool, CheckpointError> {
    let marks = ORBAX_MARKS.into_iter().filter(|mark| *mark != ORBAX_BEGINNING);
    if has_any(dir, &marks.collect::<Vec<_>>())? {
        return Ok(true);
    }
    if !dir.join(ORBAX_BEGINNING).exists()? {
        return Ok(false);
    }
    let mut items = dir.entries()?.into_iter().filter(|entry| entry.is_dir);
    let of_item = ["_METADATA", "manifest.ocdbt", CHECKPOINT_FILE];
    items.try_fold(false, |found, item| Ok(found || has_any(&item.path, &of_item)?))
}

/// Whether a folder contains one of these files.
pub(crate) fn has_any(dir: &Path, names: &[&str]) -> Result<bool, CheckpointError> {
    names.iter().try_fold(false, |found, name| Ok(found || dir.join(name).exists()?))
}

/// The folder of the checkpoint of a step.
pub fn checkpoint_dir(model_dir: &Path, step: u64) -> Path {
    model_dir.join(&format!("{PREFIX}{step}"))
}

/// The file of a Trainer's checkpoint of a step, which has the number of the last update, from 0.
///
/// # Panics
/// If there was no update yet.
pub fn trainer_file(model_dir: &Path, step: u64) -> Path {
    let iteration = step.checked_sub(1).expect("a Trainer saves after an update");
    model_dir.join(&format!("{TRAINER_PREFIX}{iteration}{TRAINER_SUFFIX}"))
}

/// The file of a Trainer's best checkpoint.
pub fn best_trainer_file(model_dir: &Path) -> Path {
    model_dir.join(&format!("{TRAINER_BEST}{TRAINER_SUFFIX}"))
}

/// The step in the name of a Trainer's checkpoint: 7 in `model_6.pth`, and in the folder `model_6`.
pub fn step_of_trainer(name: &str) -> Option<u64> {
    let digits = name.strip_suffix(TRAINER_SUFFIX).unwrap_or(name).strip_prefix(TRAINER_PREFIX)?;
    number_of(digits)?.checked_add(1)
}

/// The common prefix of the files of TensorFlow's checkpoint of a step.
pub fn bundle_prefix(folder: &Path, step: u64) -> Path {
    folder.join(&format!("{BUNDLE_PREFIX}{step}"))
}

/// The step in the name of a TensorFlow checkpoint: `model.ckpt-N`.
pub fn step_of_bundle(name: &str) -> Option<u64> {
    let digits = name.strip_prefix(BUNDLE_PREFIX)?;
    digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok())?
}

/// The step in the name of a path.
pub fn step_of(path: &Path) -> Option<u64> {
    step_of_name(path.file_name())
}

/// The step in the name of a checkpoint; `None` for a name that Gimlet would not write, such as
/// `checkpoint_007`.
pub(crate) fn step_of_name(name: &str) -> Option<u64> {
    number_of(name.strip_prefix(PREFIX)?)
}

/// The number that is written as these digits, without a leading zero.
fn number_of(digits: &str) -> Option<u64> {
    digits.parse().ok().filter(|number: &u64| number.to_string() == digits)
}

/// Whether a path relative to a checkpoint is a data position.
pub(crate) fn is_dataset_file(relative: &str) -> bool {
    let name = relative.strip_prefix("gimlet/").unwrap_or(relative);
    name.starts_with(DATASET_PREFIX) && !name.contains('/')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_names_tell_a_step() {
        let step = |name: &str| step_of(&Path::parse(&format!("dir/{name}")).unwrap());
        assert_eq!(step("checkpoint_1000"), Some(1000));
        let others = [
            "checkpoint_6.tmp-17",
            "checkpoint_",
            "checkpoint",
            "checkpoint_a",
            "checkpoint_007",
            "x",
        ];
        for other in others {
            assert_eq!(step(other), None, "{other}");
        }
    }
}
