//! How much there is to read of a task, as far as that decides who reads what.

use super::task::{TaskPlan, cache_of, split_files};
use crate::data::cache::cache_step;
use crate::data::error::DataError;
use crate::data::source::SplitFiles;
use crate::data::task::Task;

/// From how many files, records and bytes on more of them make no difference.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Enough {
    pub files: usize,
    pub records: usize,
    /// So many files or fewer may be told apart by their records only.
    pub few_files: usize,
    pub bytes: u64,
}

/// What there is to read of a task, counted as far as it matters.
#[derive(Clone, Debug, Default)]
pub(crate) struct Extent {
    pub num_files: usize,
    /// Which files are empty, if there are not enough of them.
    pub empty_files: Vec<usize>,
    /// Records, if there are few files.
    pub num_records: usize,
    /// As stored.
    pub num_bytes: u64,
}

impl Extent {
    /// Whether each of so many readers that share out the files, every one the next, has one with records.
    pub(crate) fn feeds(&self, num_readers: usize) -> bool {
        let mut readers = 0..num_readers.min(self.num_files);
        num_readers <= self.num_files
            && readers.all(|reader| {
                let mut own = (reader..self.num_files).step_by(num_readers);
                own.any(|file| !self.empty_files.contains(&file))
            })
    }
}

/// The names of the files that a task is read from, in order; of split data sets, with the records that are.
pub(crate) fn file_names(task: &Task, plan: &TaskPlan) -> Result<Vec<String>, DataError> {
    let cache = cache_of(task, cache_step(task)?, plan, &mut Vec::new())?;
    let files = split_files(task, cache.as_ref(), plan)?.files;
    Ok(files.iter().map(|file| format!("{}{:?}", file.path.file_name(), file.records)).collect())
}

/// What there is to read of a task. Files are listed, few of them looked at, and fewer opened.
pub(crate) fn extent(task: &Task, plan: &TaskPlan, enough: Enough) -> Result<Extent, DataError> {
    let cache = cache_of(task, cache_step(task)?, plan, &mut Vec::new())?;
    let split = split_files(task, cache.as_ref(), plan)?;
    if split.most.is_some() {
        // As little as if it could not be told, so that one stream reads it.
        return Ok(Extent { num_files: 1, ..Extent::default() });
    }
    let SplitFiles { files, .. } = &split;
    let mut extent = Extent { num_files: files.len(), ..Extent::default() };
    for (index, file) in files.iter().enumerate() {
        if extent.num_bytes >= enough.bytes && files.len() >= enough.files {
            break;
        }
        let size = file.size()?;
        extent.num_bytes += size;
        if size == 0 && files.len() < enough.files {
            extent.empty_files.push(index);
        }
    }
    if files.len() <= enough.few_files {
        extent.num_records = split.num_records(enough.records);
    }
    Ok(extent)
}
