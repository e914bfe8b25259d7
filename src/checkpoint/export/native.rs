//! To T5X's own format.

use crate::checkpoint::array::{Array, DType};
use crate::checkpoint::blocks::read_block;
use crate::checkpoint::error::CheckpointError;
use crate::checkpoint::journal::Job;
use crate::checkpoint::native::{CHECKSUMS_FILE, JOURNAL_FILE, Writer};
use crate::checkpoint::parallel;
use crate::checkpoint::retention::{DATASET_PREFIX, remove_stale};
use crate::checkpoint::stored::{Format, Stored};
use crate::checkpoint::unfinished::MARK;
use crate::storage::Path;

/// Arrays written at a time at most: each holds a block or two.
const MAX_THREADS: usize = 4;

/// The count of updates, which T5X asks for.
const STEP: &str = "state/step";

/// Writes everything that a checkpoint holds as the checkpoint of a step, and yields its folder. Floats
/// below `target/` are rounded to `dtype`. What a T5X checkpoint has of ours beside its arrays goes along:
/// its place in the data, its run. What a conversion of the same has left that was killed is gone on with.
///
/// # Errors
/// Arrays that cannot be read; a folder that cannot be written.
pub fn export_t5x(
    from: &dyn Stored,
    (model_dir, step): (&Path, u64),
    dtype: Option<DType>,
) -> Result<Path, CheckpointError> {
    let writer = Writer::resume(model_dir, step, dtype, &Job::of(from, &dtype)?)?;
    remove_stale(model_dir)?;
    let arrays = from.leaves();
    if arrays.iter().all(|array| array.name != STEP) {
        let step = i32::try_from(step).map_err(|_| {
            let reason = format!("step {step} is more than T5X's 32 bits can hold");
            CheckpointError::Unsupported { path: from.path().to_string(), reason }
        })?;
        writer.array(STEP, Array::scalar_i32(step).view())?;
    }
    parallel::for_each(parallel::num_cores().min(MAX_THREADS), arrays.iter(), |array| {
        writer.parts(*array, &mut |part| read_block(from, *array, part))
    })?;
    from.empty_nodes().into_iter().for_each(|name| writer.empty(name));
    // A step that flax keeps as a number has become an array above.
    let others = from.others().into_iter().filter(|(name, _)| *name != STEP);
    others.for_each(|(name, value)| writer.other(name, value));
    if from.format() == Format::T5x {
        copy_extras(from, &writer)?;
    }
    writer.commit()
}

/// The place in the data, the run's record and what else is ours; not the checksums, which the writer
/// makes of what it writes, and nothing of how it was written.
fn copy_extras(from: &dyn Stored, writer: &Writer) -> Result<(), CheckpointError> {
    let sizes = from.path().sizes()?;
    let is_extra = |name: &&String| {
        let is_own = [CHECKSUMS_FILE, JOURNAL_FILE, MARK].contains(&&name[..]);
        let is_ours = name.starts_with("gimlet/") && !is_own;
        is_ours || name.starts_with(DATASET_PREFIX)
    };
    for name in sizes.keys().filter(is_extra) {
        if let Some(bytes) = from.extra(name)? {
            writer.extra(name, &bytes)?;
        }
    }
    Ok(())
}
