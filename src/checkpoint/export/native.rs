//! To the formats of T5X: its own, and Orbax's.

use crate::checkpoint::array::{Array, ArrayInfo, DType};
use crate::checkpoint::error::CheckpointError;
use crate::checkpoint::journal::Job;
use crate::checkpoint::native::{Conversion, Dialect, T5X, Writer};
use crate::checkpoint::orbax::ORBAX;
use crate::checkpoint::parallel;
use crate::checkpoint::retention::remove_stale;
use crate::checkpoint::stored::{STEP, Stored, read_block};
use crate::checkpoint::zarr::Compression;
use crate::storage::{Path, Takeover};

/// Arrays written at a time at most: each holds a block or two.
const MAX_THREADS: usize = 4;

/// As a run saves by default: packing weights takes longer than writing what it spares.
const COMPRESSION: Compression = Compression::None;

/// How a checkpoint is written in a format of T5X.
#[derive(Clone, Copy, Debug, Default)]
pub struct NativeOptions {
    /// The type that floats below `target/` are rounded to; `None` keeps theirs.
    pub dtype: Option<DType>,
    /// Whether to go on with what another process has begun in a bucket, which is known to be dead.
    pub takeover: Takeover,
}

/// Writes everything that a checkpoint holds as the checkpoint of a step, and yields its folder. What it has
/// of ours beside its arrays goes along: its place in the data, its run. What a conversion of the same has
/// left that was killed is gone on with.
///
/// # Errors
/// Arrays that cannot be read; a folder that cannot be written.
pub fn export_t5x(
    from: &dyn Stored,
    at: (Path, u64),
    options: &NativeOptions,
) -> Result<Path, CheckpointError> {
    export(from, at, &T5X, options)
}

/// As [`export_t5x`], in Orbax's format, without OCDBT: each array has a folder.
///
/// # Errors
/// As of [`export_t5x`]; values for which Orbax has no place.
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
    dialect: &'static Dialect,
    &NativeOptions { dtype, takeover }: &NativeOptions,
) -> Result<Path, CheckpointError> {
    let job = Job::of(from, &(dialect.name, dtype, COMPRESSION))?;
    let conversion = Conversion { dialect, dtype, job: &job, takeover };
    let writer = Writer::resume(&model_dir, step, &conversion)?.with_compression(COMPRESSION);
    match remove_stale(&model_dir).and_then(|_| fill(&writer, from, step, dialect)) {
        Ok(()) => writer.commit(),
        Err(error) => {
            writer.give_up(&error);
            Err(error)
        }
    }
}

/// Writes everything but the tree.
fn fill(
    writer: &Writer,
    from: &dyn Stored,
    step: u64,
    dialect: &Dialect,
) -> Result<(), CheckpointError> {
    let arrays = from.leaves();
    refuse_types(from, &arrays, dialect)?;
    let is_other = |name: &str| name != STEP;
    from.empty_nodes()
        .into_iter()
        .filter(|name| is_other(name))
        .for_each(|name| writer.empty(name));
    // A step that flax keeps as a number becomes an array below.
    for (name, value) in from.others().into_iter().filter(|(name, _)| is_other(name)) {
        match number(value).filter(|_| !dialect.has_numbers) {
            Some(number) => writer.array(name, number.view())?,
            None => writer.other(name, value),
        }
    }
    // Before hours of work.
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

/// Checks that every array is of a type that the format has.
fn refuse_types(
    from: &dyn Stored,
    arrays: &[ArrayInfo<'_>],
    dialect: &Dialect,
) -> Result<(), CheckpointError> {
    let refused = arrays.iter().find(|array| dialect.refused_types.contains(&array.dtype));
    refused.map_or(Ok(()), |array| {
        let (name, dtype, format) = (array.name, array.dtype, dialect.name);
        let reason = format!("`{name}` is {dtype}, for which {format} has no place");
        Err(CheckpointError::Export { path: from.path().to_string(), reason })
    })
}

/// A number as an array of no dimensions, of the type that NumPy gives to one of Python.
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
