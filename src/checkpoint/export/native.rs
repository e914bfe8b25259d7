//! To T5X's own format.

use std::sync::Mutex;
use std::thread;

use crate::checkpoint::array::{Array, DType};
use crate::checkpoint::blocks::read_block;
use crate::checkpoint::error::CheckpointError;
use crate::checkpoint::native::Writer;
use crate::checkpoint::retention::{DATASET_PREFIX, remove_stale};
use crate::checkpoint::stored::{Format, Stored};
use crate::storage::Path;

/// Arrays written at a time at most: each holds a block or two.
const MAX_THREADS: usize = 4;

/// The count of updates, which T5X asks for.
const STEP: &str = "state/step";

/// Writes everything that a checkpoint holds as the checkpoint of a step, and yields its folder. Floats
/// below `target/` are rounded to `dtype`. What a T5X checkpoint has of ours beside its arrays goes along:
/// its place in the data, its run.
///
/// # Errors
/// Arrays that cannot be read; a folder that cannot be written.
pub fn export_t5x(
    from: &dyn Stored,
    (model_dir, step): (&Path, u64),
    dtype: Option<DType>,
) -> Result<Path, CheckpointError> {
    remove_stale(model_dir)?;
    let writer = Writer::create(model_dir, step, dtype)?;
    let arrays = from.leaves();
    if arrays.iter().all(|array| array.name != STEP) {
        let step = i32::try_from(step).map_err(|_| {
            let reason = format!("step {step} is more than T5X's 32 bits can hold");
            CheckpointError::Unsupported { path: from.path().to_string(), reason }
        })?;
        writer.array(STEP, Array::scalar_i32(step).view())?;
    }
    each_in_parallel(&arrays, |array| {
        writer.parts(*array, &mut |part| read_block(from, *array, part))
    })?;
    from.empty_nodes().into_iter().for_each(|name| writer.empty(name));
    if from.format() == Format::T5x {
        copy_extras(from, &writer)?;
    }
    writer.commit()
}

/// The place in the data, the run's record and what else is ours; not the checksums, which the writer
/// makes of what it writes.
fn copy_extras(from: &dyn Stored, writer: &Writer) -> Result<(), CheckpointError> {
    let sizes = from.path().sizes()?;
    let is_extra = |name: &&String| {
        let is_ours = name.starts_with("gimlet/") && *name != "gimlet/checksums.json";
        is_ours || name.starts_with(DATASET_PREFIX)
    };
    for name in sizes.keys().filter(is_extra) {
        if let Some(bytes) = from.extra(name)? {
            writer.extra(name, &bytes)?;
        }
    }
    Ok(())
}

/// Does the work for each item on a few threads; the first error ends it.
fn each_in_parallel<T: Sync>(
    items: &[T],
    work: impl Fn(&T) -> Result<(), CheckpointError> + Sync,
) -> Result<(), CheckpointError> {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let rest = Mutex::new(items.iter());
    let next = || rest.lock().expect("taking an item does not panic").next();
    let failed = Mutex::new(None);
    thread::scope(|scope| {
        for _ in 0..cores.min(MAX_THREADS).min(items.len()) {
            scope.spawn(|| {
                while let Some(item) = next() {
                    if let Err(error) = work(item) {
                        let mut rest = rest.lock().expect("taking an item does not panic");
                        *rest = [].iter();
                        failed
                            .lock()
                            .expect("keeping an error does not panic")
                            .get_or_insert(error);
                    }
                }
            });
        }
    });
    failed.into_inner().expect("keeping an error does not panic").map_or(Ok(()), Err)
}
