//! Checkpoints on disk: those of T5X's libraries (`fixtures.py`), Gimlet's own, and damaged ones.

mod converting;
mod crash;
mod damage;
mod failing;
mod formats;
mod hostile;
mod interrupted;
mod keeping;
mod models;
mod orbax;
mod orbax_written;
mod other;
mod peft;
mod properties;
mod ranks;
mod restoring;
mod saving;
mod stores;
mod tool;

use std::path::PathBuf;

use gimlet::checkpoint::{Array, CheckpointError, DType, Skipped, Stored, Writer, restore_newest};
use gimlet::models::{HUGGING_FACE, open};
use gimlet::storage::Path;

use crate::storage::faulty::Bucket;

/// Creates a new folder, which is removed when the first part is dropped.
fn scratch() -> (tempfile::TempDir, Path) {
    let dir = tempfile::tempdir().unwrap();
    let path = Path::try_from(dir.path()).unwrap();
    (dir, path)
}

/// Runs a check in an empty folder on disk and in one of a bucket.
fn everywhere(check: impl Fn(&Path)) {
    let (_dir, on_disk) = scratch();
    check(&on_disk);
    let bucket = Bucket::new();
    check(&bucket.path("run"));
}

fn fixture(name: &str) -> Path {
    let dir =
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/pipeline/checkpoint").join(name);
    Path::try_from(dir.as_path()).unwrap()
}

/// An element as a number.
fn number(dtype: DType, bytes: &[u8]) -> f64 {
    match dtype {
        DType::Bool | DType::U8 => bytes[0].into(),
        DType::I8 => (bytes[0] as i8).into(),
        DType::U16 => u16::from_le_bytes(bytes.try_into().unwrap()).into(),
        DType::I16 => i16::from_le_bytes(bytes.try_into().unwrap()).into(),
        DType::U64 => u64::from_le_bytes(bytes.try_into().unwrap()) as f64,
        DType::I64 => i64::from_le_bytes(bytes.try_into().unwrap()) as f64,
        DType::I32 => i32::from_le_bytes(bytes.try_into().unwrap()).into(),
        DType::U32 => u32::from_le_bytes(bytes.try_into().unwrap()).into(),
        DType::F64 => f64::from_le_bytes(bytes.try_into().unwrap()),
        DType::F32 => f32::from_le_bytes(bytes.try_into().unwrap()).into(),
        DType::F16 => half::f16::from_le_bytes(bytes.try_into().unwrap()).into(),
        DType::Bf16 => half::bf16::from_le_bytes(bytes.try_into().unwrap()).into(),
    }
}

/// Checks that element i is (i % 97) / 2; see `fixtures.py`.
fn check_cyclic(name: &str, array: &Array) {
    let elements = array.data.chunks(array.dtype.size());
    let found: Vec<f64> = elements.map(|element| number(array.dtype, element)).collect();
    let expected = (0..found.len()).map(|i| match array.dtype.is_float() {
        true => (i % 97) as f64 / 2.0,
        false => (i % 97 / 2) as f64,
    });
    assert_eq!(found, expected.collect::<Vec<_>>(), "{name}");
}

/// Every file below the folder.
fn files(dir: &Path) -> Vec<Path> {
    dir.list()
        .unwrap()
        .into_iter()
        .flat_map(|path| if path.is_dir().unwrap() { files(&path) } else { vec![path] })
        .collect()
}

/// The newest checkpoint that is whole, and the newer ones that are damaged.
type Newest = (Option<Box<dyn Stored>>, Vec<Skipped>);

/// Finds the newest checkpoint whose bytes are all as written, in the same way as a restoring
/// run.
fn newest_whole(model_dir: &Path) -> Result<Newest, CheckpointError> {
    let mut skipped = Vec::new();
    let verify = |stored: Box<dyn Stored>| stored.verify().map(|()| stored);
    let newest =
        restore_newest((model_dir, HUGGING_FACE), &mut skipped, verify, CheckpointError::damage)?;
    Ok((newest, skipped))
}

/// Copies a folder under its own name; the copy is removed when the first part is dropped.
fn copied(original: &Path) -> (tempfile::TempDir, Path) {
    let (scratch, dir) = scratch();
    let dir = dir.join(original.file_name());
    copy_files(original, &dir);
    (scratch, dir)
}

/// Copies a folder, also into a bucket.
fn copy_files(from: &Path, to: &Path) {
    for file in files(from) {
        let copy = to.join(file.relative_to(from));
        copy.parent().unwrap().create_dir_all().unwrap();
        copy.write_atomic(&file.read().unwrap()).unwrap();
    }
}

fn overwrite(file: &Path, bytes: &[u8]) {
    match file.local() {
        // In place, like real damage.
        Ok(local) => std::fs::write(local, bytes).unwrap(),
        Err(_) => file.write_atomic(bytes).unwrap(),
    }
}

/// Copies every array of a checkpoint into a new one in `model_dir`.
fn copy(from: &dyn Stored, model_dir: &Path, target_dtype: Option<DType>) -> Box<dyn Stored> {
    let writer = Writer::create(model_dir, from.step().unwrap(), target_dtype).unwrap();
    for leaf in from.leaves() {
        writer.array(leaf.name, from.read(leaf.name).unwrap().view()).unwrap();
    }
    open(&writer.commit().unwrap()).unwrap()
}

/// Saves a small state whose values are all the step.
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

/// The names in the folder; in a bucket there is none without files.
fn names(dir: &Path) -> Vec<String> {
    match dir.list() {
        Err(error) if error.is_not_found() => Vec::new(),
        paths => paths.unwrap().iter().map(|path| path.file_name().to_string()).collect(),
    }
}
