//! The files of an inference, under T5X's names.

use crate::storage::{Path, StorageError};

use super::spec::Infer;

/// The files of one task's results, for one shard.
#[derive(Clone, Debug)]
pub struct TaskFiles {
    /// The folder of chunks, which exists until they are joined.
    pub tmp_dir: Path,
    /// The results.
    pub output: Path,
    /// An empty file, which exists when the results are complete.
    pub completed: Path,
    /// The part of a chunk's name before its number.
    chunk: Path,
}

impl TaskFiles {
    /// Returns the files of a task below a folder.
    pub fn new(spec: &Infer, folder: &Path, task: &str) -> Self {
        let shard = format!("{:05}-of-{:05}", spec.shard_id, spec.num_shards);
        let name = format!("{task}-{}.{}-{shard}", spec.mode.name(), spec.file_extension);
        let tmp_dir = folder.join(&format!("tmp-{task}-{shard}"));
        Self {
            output: folder.join(&name),
            completed: folder.join(&format!("{name}.COMPLETED")),
            chunk: tmp_dir.join(&format!("{name}-chunk")),
            tmp_dir,
        }
    }

    /// Returns the file of a chunk.
    pub fn chunk(&self, number: usize) -> Path {
        self.chunk.suffixed(&format!("{number:05}"))
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

    /// Marks the results as complete.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn complete(&self) -> Result<(), StorageError> {
        self.completed.parent().expect("it lies in a folder").create_dir_all()?;
        self.completed.write_atomic(b"")
    }
}
