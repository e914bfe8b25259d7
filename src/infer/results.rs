//! The results that earlier runs have completed, which stay if they are those that this one asks for.

use std::sync::Arc;

use crate::data::Task;
use crate::session::error::SessionError;
use crate::session::made_with::{MadeWith, Values};
use crate::storage::Path;

use super::files::TaskFiles;
use super::plan::PlannedCheckpoint;
use super::progress::{ChunkSettings, Progress};
use super::spec::Infer;

/// The values that change no result, or that the names of files and the checkpoint show.
const WITHOUT_EFFECT: [&str; 19] = [
    "infer.checkpoint_ds_iter",
    "infer.checkpoint_period",
    "infer.dataset_cfg.batch_size",
    "infer.dataset_cfg.mixture_or_task_name",
    "infer.dataset_cfg.module",
    "infer.dataset_cfg.num_prefetch_threads",
    "infer.dataset_cfg.use_memory_cache",
    "infer.file_extension",
    "infer.merge_chunked_results",
    "infer.merge_fn",
    "infer.model.optimizer_def",
    "infer.num_shards",
    "infer.output_dir",
    "infer.partitioner",
    "infer.restore_checkpoint_cfg.mode",
    "infer.restore_checkpoint_cfg.nearest_steps",
    "infer.restore_checkpoint_cfg.path",
    "infer.shard_id",
    "infer.summarize_config_fn",
];

/// Returns the values that decide the results of a checkpoint.
pub fn made_with(values: &Values, checkpoint: &Path) -> MadeWith {
    MadeWith::new(values, &WITHOUT_EFFECT).with("checkpoint", checkpoint)
}

/// Refuses folders with results of another checkpoint, or of other values, complete or in chunks. Results that an earlier version or
/// T5X made do not say with what.
///
/// # Errors
/// The first results that differ, with both values.
pub fn check_results(
    spec: &Infer,
    values: &Values,
    checkpoints: &[PlannedCheckpoint],
    tasks: &[Arc<Task>],
) -> Result<(), SessionError> {
    for PlannedCheckpoint { path, folder } in checkpoints {
        for task in tasks {
            let files = TaskFiles::new(spec, folder, task.task_name());
            let TaskFiles { output, completed, .. } = &files;
            let made_with = made_with(values, path);
            let text = match completed.read() {
                Err(error) if error.is_not_found() => {
                    Progress::of(&files, ChunkSettings::new(spec, &files, path, made_with))?;
                    continue;
                }
                text => text?,
            };
            let Some(earlier) = MadeWith::parse(&text) else { continue };
            let remedy = format!(
                "set INFER_OUTPUT_DIR to another folder, or delete `{completed}` to replace them"
            );
            let what = format!("`{output}` holds finished results of");
            earlier.check(&made_with, &what, &remedy)?;
        }
    }
    Ok(())
}
