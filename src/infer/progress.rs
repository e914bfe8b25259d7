//! The extent to which an earlier process has written a task's results: `progress.json` beside the chunks.

use serde::{Deserialize, Serialize};

use crate::data::StageState;
use crate::session::error::SessionError;
use crate::storage::Path;

use super::files::TaskFiles;

const FILE: &str = "progress.json";

/// The chunks that are written, and the position after them. A chunk counts once it is listed here: its file is
/// whole before.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Progress {
    /// The settings that all chunks of a folder share.
    pub settings: ChunkSettings,
    /// Number of chunks.
    pub num_chunks: usize,
    /// Number of examples in them.
    pub num_examples: u64,
    /// The position in the examples after them, if it is saved.
    pub position: Option<StageState>,
}

/// The settings without which chunks do not belong together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChunkSettings {
    /// The checkpoint.
    pub checkpoint: String,
    /// Mode and ending of the results.
    pub name: String,
    /// Split of the task.
    pub split: String,
    /// Number of examples of a chunk.
    pub examples_per_chunk: usize,
}

impl Progress {
    /// Returns the progress of an earlier process, or none.
    ///
    /// # Errors
    /// The file cannot be read, or was written with other settings.
    pub fn of(files: &TaskFiles, settings: ChunkSettings) -> Result<Self, SessionError> {
        let file = file(files);
        let text = match file.read() {
            Err(error) if error.is_not_found() => {
                return Ok(Self { settings, num_chunks: 0, num_examples: 0, position: None });
            }
            text => text?,
        };
        let found: Self = serde_json::from_slice(&text).map_err(|error| {
            SessionError::Unfit(format!("`{file}` is damaged ({error}): {}", remedy(files)))
        })?;
        match found.settings == settings {
            true => Ok(found),
            false => Err(SessionError::Unfit(format!(
                "`{}` has chunks of another inference: {} where this one has {}; {}",
                files.tmp_dir,
                found.settings.unlike(&settings),
                settings.unlike(&found.settings),
                remedy(files)
            ))),
        }
    }

    /// Saves it.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn save(&self, files: &TaskFiles) -> Result<(), SessionError> {
        let text = serde_json::to_vec(self).expect("it has a JSON form");
        Ok(file(files).write_atomic(&text)?)
    }
}

impl ChunkSettings {
    /// Returns the first setting that differs from another's.
    fn unlike(&self, other: &Self) -> String {
        if self.checkpoint != other.checkpoint {
            return format!("checkpoint `{}`", self.checkpoint);
        }
        if self.name != other.name {
            return format!("results `{}`", self.name);
        }
        if self.split != other.split {
            return format!("split '{}'", self.split);
        }
        format!("{} examples a chunk (checkpoint_period * batch_size)", self.examples_per_chunk)
    }
}

fn file(files: &TaskFiles) -> Path {
    files.tmp_dir.join(FILE)
}

fn remedy(files: &TaskFiles) -> String {
    format!("delete `{}` to start over, or set INFER_OUTPUT_DIR to another folder", files.tmp_dir)
}
