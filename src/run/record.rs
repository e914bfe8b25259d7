//! The files that another project's program writes beside those of a run, such as its command line.

use crate::storage::{Path, StorageError};
use crate::telemetry;

use super::failure::Failure;

/// Texts for the folder of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The folder.
    pub folder: String,
    /// The files.
    pub files: Vec<RecordFile>,
}

/// A text and its file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordFile {
    /// Path in the folder.
    pub name: String,
    /// The text.
    pub text: String,
    /// Whether those of earlier starts stay: this one then is `NAME.1`, `NAME.2`, ...
    pub keeps_earlier: bool,
}

impl Record {
    /// Writes the files. A folder that cannot be written is only mentioned: the run itself will report it.
    ///
    /// # Errors
    /// A path that is not valid.
    pub fn write(&self) -> Result<(), Failure> {
        let folder = Path::parse(&self.folder).map_err(Failure::usage)?;
        if let Err(error) = self.files.iter().try_for_each(|file| file.write(&folder)) {
            telemetry::notice(&format!("the record of the command is not written: {error}"));
        }
        Ok(())
    }
}

impl RecordFile {
    fn write(&self, folder: &Path) -> Result<(), StorageError> {
        let mut path = folder.join(&self.name);
        let mut number = 0;
        while self.keeps_earlier && path.exists()? {
            number += 1;
            path = folder.join(&format!("{}.{number}", self.name));
        }
        if let Some(folder) = path.parent() {
            folder.create_dir_all()?;
        }
        path.write_atomic(self.text.as_bytes())
    }
}
