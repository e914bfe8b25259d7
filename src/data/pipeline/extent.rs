//! What there is to read of a task, as far as that decides how it is shared out.

use super::task::{TaskPlan, cache_of, split_files};
use crate::data::cache::cache_step;
use crate::data::error::DataError;
use crate::data::source::SplitFiles;
use crate::data::task::Task;

fn planned_files(task: &Task, plan: &TaskPlan) -> Result<SplitFiles, DataError> {
    let cache = cache_of(task, cache_step(task)?, plan)?;
    split_files(task, cache.as_ref(), plan)
}

/// The names of the files that a task is read from, in order; of split data sets, with the records that are.
pub(crate) fn file_names(task: &Task, plan: &TaskPlan) -> Result<Vec<String>, DataError> {
    let files = planned_files(task, plan)?.files;
    Ok(files.iter().map(|file| format!("{}{:?}", file.path.file_name(), file.records)).collect())
}

/// Bytes of a task as they are stored, counted until there are `enough`; none where only its first records are
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
