//! The extent of a task's data, which decides how they are divided among streams.

use super::task::{TaskPlan, cache_of, split_files};
use crate::cache::cache_step;
use crate::error::DataError;
use crate::source::SplitFiles;
use crate::task::Task;

fn planned_files(task: &Task, plan: &TaskPlan) -> Result<SplitFiles, DataError> {
    let cache = cache_of(task, cache_step(task)?, plan)?;
    split_files(task, cache.as_ref(), plan)
}

/// The names of the files that a task is read from, in order; for split data sets, with the range
/// of records that is read.
pub(crate) fn file_names(task: &Task, plan: &TaskPlan) -> Result<Vec<String>, DataError> {
    let files = planned_files(task, plan)?.files;
    Ok(files.iter().map(|file| format!("{}{:?}", file.path.file_name(), file.records)).collect())
}

/// The names of the files that a task is read from, in order.
pub(crate) fn plain_file_names(task: &Task, plan: &TaskPlan) -> Result<Vec<String>, DataError> {
    let files = planned_files(task, plan)?.files;
    Ok(files.iter().map(|file| file.path.file_name().to_string()).collect())
}

/// Stored bytes of a task, counted until the sum reaches `enough`; 0 if only its first records are
/// read, whose size is not known.
pub(crate) fn num_bytes(task: &Task, plan: &TaskPlan, enough: u64) -> Result<u64, DataError> {
    let split = planned_files(task, plan)?;
    let mut bytes = 0;
    for file in split.files.iter().filter(|_| split.most.is_none()) {
        if bytes >= enough {
            break;
        }
        bytes += file.size()?;
    }
    Ok(bytes)
}
