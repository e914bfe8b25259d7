//! The extent to which an earlier process has written a task's results: `progress.json` beside the chunks.

use serde::{Deserialize, Serialize};

use crate::data::StageState;
use crate::session::error::SessionError;
use crate::session::made_with::MadeWith;
use crate::storage::Path;

use super::files::TaskFiles;
use super::spec::Infer;

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
    /// All values that decide the results; an earlier version did not write them.
    #[serde(default)]
    pub made_with: Option<MadeWith>,
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
        if let Some((found, expected)) = found.settings.unlike(&settings) {
            return Err(SessionError::Unfit(format!(
                "`{}` has chunks of another inference: {found} where this one has {expected}; {}",
                files.tmp_dir,
                remedy(files)
            )));
        }
        if let (Some(earlier), Some(now)) = (&found.settings.made_with, &settings.made_with) {
            earlier.check(now, &format!("`{}` has chunks of", files.tmp_dir), &remedy(files))?;
        }
        Ok(found)
    }
}

impl ChunkSettings {
    /// Returns the settings of the results of a checkpoint.
    pub fn new(spec: &Infer, files: &TaskFiles, checkpoint: &Path, made_with: MadeWith) -> Self {
        let Infer { dataset_cfg, checkpoint_period, .. } = spec;
        Self {
            checkpoint: checkpoint.to_string(),
            name: files.output.file_name().to_string(),
            split: dataset_cfg.split.clone(),
            examples_per_chunk: checkpoint_period * dataset_cfg.batch_size,
            made_with: Some(made_with),
        }
    }

    /// Returns the first setting that differs from another's, and that one.
    fn unlike(&self, other: &Self) -> Option<(String, String)> {
        let [ours, theirs] = [self, other].map(|settings| {
            [
                format!("checkpoint `{}`", settings.checkpoint),
                format!("results `{}`", settings.name),
                format!("split '{}'", settings.split),
                format!(
                    "{} examples a chunk (checkpoint_period * batch_size)",
                    settings.examples_per_chunk
                ),
            ]
        });
        ours.into_iter().zip(theirs).find(|(ours, theirs)| ours != theirs)
    }
}

/// Returns the file.
pub fn file(files: &TaskFiles) -> Path {
    files.tmp_dir.join(FILE)
}

fn remedy(files: &TaskFiles) -> String {
    format!("delete `{}` to start over, or set INFER_OUTPUT_DIR to another folder", files.tmp_dir)
}
