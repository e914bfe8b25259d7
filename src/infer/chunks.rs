//! The writing of a task's results: in chunks, which are joined at the end.

use crate::session::error::SessionError;
use crate::session::made_with::MadeWith;
use crate::storage::{Path, StorageError};

use super::files::TaskFiles;
use super::progress::{Progress, file};
use super::spec::Infer;

impl Progress {
    /// Saves it.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn save(&self, files: &TaskFiles) -> Result<(), SessionError> {
        let text = serde_json::to_vec(self).expect("it has a JSON form");
        Ok(file(files).write_atomic(&text)?)
    }
}

impl TaskFiles {
    /// Returns the file of a chunk.
    pub fn chunk(&self, number: usize) -> Path {
        self.tmp_dir.join(&format!("{}-chunk{number:05}", self.output.file_name()))
    }

    /// Writes the results of a chunk, and the empty file that says so. Both are whole or absent.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn write_chunk(&self, number: usize, lines: &[String]) -> Result<(), StorageError> {
        let chunk = self.chunk(number);
        // Names of tasks may hold slashes.
        chunk.parent().expect("it lies in a folder").create_dir_all()?;
        chunk.write_atomic(lines.concat().as_bytes())?;
        chunk.suffixed(".COMPLETED").write_atomic(b"")
    }

    /// Joins so many chunks to the results.
    ///
    /// # Errors
    /// A chunk cannot be read, or the results cannot be written.
    pub fn merge(&self, num_chunks: usize) -> Result<(), StorageError> {
        self.output.parent().expect("it lies in a folder").create_dir_all()?;
        let mut merged = self.output.create_atomic()?;
        for number in 0..num_chunks {
            let mut chunk = self.chunk(number).open()?;
            std::io::copy(&mut chunk, &mut merged)
                .map_err(|error| StorageError::new("write", &self.output, error))?;
        }
        merged.finish()
    }

    /// Removes the chunks, if they were joined.
    ///
    /// # Errors
    /// They cannot be removed.
    pub fn remove_chunks(&self, spec: &Infer) -> Result<(), StorageError> {
        match spec.merge_chunked_results && self.tmp_dir.is_dir()? {
            true => self.tmp_dir.remove_dir_all(),
            false => Ok(()),
        }
    }

    /// Marks the results as complete, and made with these values.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn complete(&self, made_with: &MadeWith) -> Result<(), StorageError> {
        self.completed.parent().expect("it lies in a folder").create_dir_all()?;
        self.completed.write_atomic(&made_with.to_json())
    }
}
