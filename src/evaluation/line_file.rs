//! A file of lines that is written while a model makes outputs.

use std::fmt::Display;
use std::io::Write;

use gimlet_storage::{FileWriter, Path, StorageError};

use super::task::EvalError;

/// A file of lines that is being written. It becomes visible as a whole.
pub(super) struct LineFile {
    path: Path,
    /// The first error is reported at the end, after those of the metrics.
    file: Result<FileWriter, StorageError>,
}

impl LineFile {
    /// Creates the file and its folder.
    pub(super) fn create(path: Path) -> Self {
        // Task names may hold slashes.
        let folder = path.parent().expect("results lie in a directory").create_dir_all();
        let file = folder.and_then(|()| path.create_atomic());
        Self { path, file }
    }

    /// Writes a line.
    pub(super) fn write(&mut self, line: impl Display) {
        let Ok(file) = &mut self.file else { return };
        if let Err(error) = writeln!(file, "{line}") {
            self.file = Err(StorageError::new("write", &self.path, error));
        }
    }

    /// Makes the file visible.
    pub(super) fn finish(self) -> Result<(), EvalError> {
        Ok(self.file.and_then(FileWriter::finish)?)
    }
}
