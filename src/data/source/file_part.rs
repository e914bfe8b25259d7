//! Parts of the files of a split, each of which is read as if there were no others.

use std::ops::Range;

use super::split::SplitFiles;
use crate::error::DataError;

/// One of several parts of a split's files: consecutive files, as many as in each other part. The rest of the division is in
/// none. Source: t5-experiments `run_t5_pretraining.py`, which deals files to its processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FilePart {
    /// Number of the part, from 0.
    pub index: usize,
    /// Number of parts.
    pub count: usize,
}

impl FilePart {
    /// Returns the positions of the part's files; none if there are more parts than files.
    pub(crate) fn range(self, num_files: usize) -> Range<usize> {
        let length = num_files / self.count;
        self.index * length..(self.index + 1) * length
    }

    /// Returns the files of the part.
    ///
    /// # Errors
    /// There are more parts than files.
    pub(crate) fn of(
        self,
        task: &str,
        split: &str,
        whole: SplitFiles,
    ) -> Result<SplitFiles, DataError> {
        let (count, num_files) = (self.count, whole.files.len());
        let files = whole.files[self.range(num_files)].to_vec();
        if files.is_empty() {
            return Err(DataError::Config(format!(
                "task `{task}`, split '{split}', has {num_files} files, expected at least one for each part of \
                 `utils.DatasetConfig.file_parts = {count}`: give fewer parts, or divide the files"
            )));
        }
        Ok(SplitFiles { files, ..whole })
    }
}
