//! Checkpoints on disk: those that T5X's libraries wrote (`fixtures.py`), our own, and damaged ones.

mod crash;
mod damage;
mod formats;
mod keeping;
mod other;
mod restoring;

use std::path::PathBuf;

use gimlet::checkpoint::{Array, DType, Stored, Writer, open};
use gimlet::storage::Path;

/// A new folder that goes away with the first part.
fn scratch() -> (tempfile::TempDir, Path) {
    let dir = tempfile::tempdir().unwrap();
    let path = Path::try_from(dir.path()).unwrap();
    (dir, path)
}

fn fixture(name: &str) -> Path {
    let dir =
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/pipeline/checkpoint").join(name);
    Path::try_from(dir.as_path()).unwrap()
}

/// Copies every array of a checkpoint into a new one in `model_dir`.
fn copy(from: &dyn Stored, model_dir: &Path, target_dtype: Option<DType>) -> Box<dyn Stored> {
    let writer = Writer::create(model_dir, from.step().unwrap(), target_dtype).unwrap();
    for leaf in from.leaves() {
        writer.array(leaf.name, from.read(leaf.name).unwrap().view()).unwrap();
    }
    open(&writer.commit().unwrap()).unwrap()
}

/// Saves a small state whose values all are the step.
fn save(model_dir: &Path, step: u64) -> Path {
    save_sized(model_dir, step, 64)
}

fn save_sized(model_dir: &Path, step: u64, length: usize) -> Path {
    let writer = Writer::create(model_dir, step, None).unwrap();
    let values = Array::from_f32(&[2, length], &vec![step as f32; 2 * length]);
    for name in ["target/a", "target/b", "state/param_states/a/v"] {
        writer.array(name, values.view()).unwrap();
    }
    writer
        .array("state/param_states/a/v_row", Array::from_f32(&[2], &[step as f32; 2]).view())
        .unwrap();
    writer.array("state/step", Array::scalar_i32(step as i32).view()).unwrap();
    writer.extra("gimlet/train_ds-000-of-001.json", b"{}").unwrap();
    writer.commit().unwrap()
}

/// The names in the folder.
fn names(dir: &Path) -> Vec<String> {
    dir.list().unwrap().iter().map(|path| path.file_name().to_string()).collect()
}
