//! Writes checkpoints in the formats of T5X: its own, and Orbax's.

use crate::array::{Array, ArrayInfo, DType};
use crate::error::CheckpointError;
use crate::native::{Conversion, T5X, Writer, WrittenFormat};
use crate::orbax::ORBAX;
use crate::parallel;
use crate::retention::remove_stale;
use crate::stored::{Stored, read_block};
use crate::t5x_tree::STEP;
use crate::zarr::Compression;
use gimlet_storage::{Path, Takeover};

/// Maximum number of arrays written at the same time: each holds a block or two in memory.
const MAX_THREADS: usize = 4;

/// The default of a run: compressing weights takes longer than writing the bytes that it saves.
const COMPRESSION: Compression = Compression::None;

/// Options for writing a checkpoint in a format of T5X.
#[derive(Clone, Copy, Debug, Default)]
pub struct NativeOptions {
    /// The type to which floats below `target/` are rounded; `None` keeps their types.
    pub dtype: Option<DType>,
    /// Whether to replace an unfinished checkpoint in a bucket whose writer is known to be dead.
    pub takeover: Takeover,
}

/// Writes everything that a checkpoint holds as the checkpoint of a step, and returns its folder.
/// Gimlet's own entries are copied too: the position in the data and the run. Leftovers of a
/// conversion that was killed are removed.
///
/// # Errors
/// Arrays that cannot be read; a folder that cannot be written; the checkpoint is there already, or
/// another process writes it.
pub fn export_t5x(
    from: &dyn Stored,
    at: (Path, u64),
    options: &NativeOptions,
) -> Result<Path, CheckpointError> {
    export(from, at, &T5X, options)
}

/// Like [`export_t5x`], in Orbax's format without OCDBT: each array has a folder.
///
/// # Errors
/// The same as those of [`export_t5x`]; values that Orbax cannot store.
pub fn export_orbax(
    from: &dyn Stored,
    at: (Path, u64),
    options: &NativeOptions,
) -> Result<Path, CheckpointError> {
    export(from, at, &ORBAX, options)
}

fn export(
    from: &dyn Stored,
    (model_dir, step): (Path, u64),
    written_format: &'static WrittenFormat,
    &NativeOptions { dtype, takeover }: &NativeOptions,
) -> Result<Path, CheckpointError> {
    remove_stale(&model_dir)?;
    let conversion = Conversion { written_format, dtype, takeover };
    let writer = Writer::convert(&model_dir, step, &conversion)?.with_compression(COMPRESSION);
    fill(&writer, from, step, written_format)?;
    writer.commit()
}

/// Writes everything except the tree.
fn fill(
    writer: &Writer,
    from: &dyn Stored,
    step: u64,
    written_format: &WrittenFormat,
) -> Result<(), CheckpointError> {
    let arrays = from.leaves();
    refuse_types(from, &arrays, written_format)?;
    let is_other = |name: &str| name != STEP;
    from.empty_nodes()
        .into_iter()
        .filter(|name| is_other(name))
        .for_each(|name| writer.empty(name));
    // A step that flax keeps as a number becomes an array below.
    for (name, value) in from.others().into_iter().filter(|(name, _)| is_other(name)) {
        match number(value).filter(|_| !written_format.has_numbers) {
            Some(number) => writer.array(name, number.view())?,
            None => writer.other(name, value),
        }
    }
    // Checks before hours of work.
    writer.check()?;
    if arrays.iter().all(|array| is_other(array.name)) {
        let step = i32::try_from(step).map_err(|_| {
            let reason = format!("step {step} is more than T5X's 32 bits can hold");
            CheckpointError::Unsupported { path: from.path().to_string(), reason }
        })?;
        writer.array(STEP, Array::scalar_i32(step).view())?;
    }
    parallel::for_each(parallel::num_cores().min(MAX_THREADS), arrays.iter(), |array| {
        writer.parts(*array, &mut |part| read_block(from, *array, part))
    })?;
    for name in from.extras()? {
        if let Some(bytes) = from.extra(&name)? {
            writer.extra(&name, &bytes)?;
        }
    }
    Ok(())
}

/// Checks that the format supports the type of every array.
fn refuse_types(
    from: &dyn Stored,
    arrays: &[ArrayInfo<'_>],
    written_format: &WrittenFormat,
) -> Result<(), CheckpointError> {
    let refused = arrays.iter().find(|array| written_format.refused_types.contains(&array.dtype));
    refused.map_or(Ok(()), |array| {
        let (name, dtype, format) = (array.name, array.dtype, written_format.name);
        let reason = format!("`{name}` is {dtype}, for which {format} has no place");
        Err(CheckpointError::Export { path: from.path().to_string(), reason })
    })
}

/// Converts a number to an array without dimensions, of the type that NumPy gives to a Python
/// number.
fn number(value: &rmpv::Value) -> Option<Array> {
    let (dtype, data) = match value {
        rmpv::Value::Boolean(is) => (DType::Bool, vec![u8::from(*is)]),
        rmpv::Value::Integer(number) => match number.as_i64() {
            Some(number) => (DType::I64, number.to_le_bytes().to_vec()),
            None => (DType::U64, number.as_u64()?.to_le_bytes().to_vec()),
        },
        rmpv::Value::F32(number) => (DType::F64, f64::from(*number).to_le_bytes().to_vec()),
        rmpv::Value::F64(number) => (DType::F64, number.to_le_bytes().to_vec()),
        _ => return None,
    };
    Some(Array { dtype, shape: Vec::new(), data })
}
