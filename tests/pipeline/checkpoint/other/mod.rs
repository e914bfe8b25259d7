//! Checkpoints made by other programs (`hugging_face.py`, `mesh.py`, `mesh_square.py`, `trainer.py`). `logits.py`, which is run by
//! hand, shows that transformers computes the same with Gimlet's files as with its own.

mod configuration;
mod export;
mod hostile;
mod hugging_face;
mod mesh;
mod mesh_export;
mod pickles;
mod torch;
mod trainer;

use gimlet::checkpoint::{Array, DType, Stored};
use gimlet::models::open;
use gimlet::storage::Path;

/// Opens a file or folder beside this one.
fn opened(name: &str) -> Box<dyn Stored> {
    open(&super::fixture(&format!("other/{name}"))).unwrap()
}

/// Returns the content of the array to which the scripts gave this name.
fn value(name: &str, shape: &[usize], dtype: DType) -> Array {
    let mut crc = flate2::Crc::new();
    crc.update(name.as_bytes());
    let start = crc.sum() as usize % 128;
    let count = shape.iter().product::<usize>();
    let values: Vec<f32> = (0..count).map(|i| ((start + i) % 256) as f32).collect();
    Array::from_f32(shape, &values).cast(dtype)
}

/// Checks every parameter of a checkpoint that was made from T5X's names, and returns their number.
fn check_params(stored: &dyn Stored, dtype: DType) -> usize {
    let mut count = 0;
    for leaf in stored.leaves() {
        let name = leaf.name.strip_prefix("target/").unwrap();
        let array = stored.read(leaf.name).unwrap();
        assert_eq!((leaf.dtype, leaf.shape), (array.dtype, &array.shape[..]), "{name}");
        assert_eq!(array, value(name, leaf.shape, dtype), "{name}");
        count += 1;
    }
    count
}

/// Copies a fixture, so that it may be damaged.
fn copied(name: &str, to: &Path) -> Path {
    let from = super::fixture(&format!("other/{name}"));
    let to = to.join(from.file_name());
    if !from.is_dir().unwrap() {
        to.write_atomic(&from.read().unwrap()).unwrap();
        return to;
    }
    super::copy_files(&from, &to);
    to
}
