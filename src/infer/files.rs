//! The files of an inference, under T5X's names.

use crate::storage::Path;

use super::spec::Infer;

/// The files of one task's results, for one shard.
#[derive(Clone, Debug)]
pub struct TaskFiles {
    /// The folder of chunks, which exists until they are joined.
    pub tmp_dir: Path,
    /// The results.
    pub output: Path,
    /// The file that exists when the results are complete, with the values with which they were made; it is empty in
    /// T5X.
    pub completed: Path,
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
            tmp_dir,
        }
    }
}
