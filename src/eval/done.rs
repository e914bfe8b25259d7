//! The checkpoints that were evaluated, in T5X's file `eval.MIXTURE.ckpt`: one path a line, by
//! step. Restore mode 'all' skips them.

use std::collections::BTreeSet;

use crate::session::named_checkpoints::{number_at_end, step_in};
use crate::storage::{Path, StorageError};

use super::spec::Evaluate;

/// The checkpoints that were evaluated on a task or mixture.
#[derive(Debug)]
pub struct DoneCheckpoints {
    file: Path,
    paths: BTreeSet<String>,
}

impl DoneCheckpoints {
    /// Returns the checkpoints that an evaluation may skip.
    ///
    /// # Errors
    /// The list cannot be read.
    pub fn of(spec: &Evaluate) -> Result<Self, StorageError> {
        Self::read(&Path::parse(&spec.output_dir)?, &spec.dataset_cfg.mixture_or_task_name)
    }

    /// Returns the checkpoints that a folder of results lists; none without a list.
    ///
    /// # Errors
    /// The list cannot be read.
    pub fn read(output_dir: &Path, mixture_or_task_name: &str) -> Result<Self, StorageError> {
        let file = output_dir.join(&format!("eval.{mixture_or_task_name}.ckpt"));
        let paths = read(&file)?;
        Ok(Self { file, paths })
    }

    /// Returns the path of the list.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// Whether the list contains the checkpoint.
    pub fn holds(&self, checkpoint: &Path) -> bool {
        self.paths.contains(checkpoint.as_str())
    }

    /// Returns a listed checkpoint whose path ends in the step.
    pub fn of_step(&self, step: u64) -> Option<String> {
        self.paths.iter().find(|path| number_at_end(path) == Some(step)).cloned()
    }

    /// Adds a checkpoint to the list, together with those that another process has added since. A
    /// reader during the write, or after a crash, finds the old list or the new one. A path that
    /// ends in no step is left out: mode 'all' never selects one, and T5X, which sorts the list,
    /// would refuse it.
    ///
    /// # Errors
    /// The list cannot be written.
    pub fn add(&mut self, checkpoint: &Path) -> Result<(), StorageError> {
        if step_in(checkpoint).is_none() {
            return Ok(());
        }
        self.paths.extend(read(&self.file)?);
        self.paths.insert(checkpoint.as_str().to_string());
        let mut paths: Vec<&str> = self.paths.iter().map(String::as_str).collect();
        paths.sort_by_key(|path| number_at_end(path));
        // Names of tasks may hold slashes.
        self.file.parent().expect("it lies in a folder").create_dir_all()?;
        self.file.write_atomic(paths.join("\n").as_bytes())
    }
}

fn read(file: &Path) -> Result<BTreeSet<String>, StorageError> {
    match file.read_to_string() {
        Err(error) if error.is_not_found() => Ok(BTreeSet::new()),
        text => Ok(text?
            .lines()
            .map(|line| line.trim().trim_end_matches('/'))
            .filter(|line| !line.is_empty())
            .map(str::to_string)
            .collect()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder() -> (tempfile::TempDir, Path) {
        let dir = tempfile::tempdir().unwrap();
        let path = Path::try_from(dir.path()).unwrap();
        (dir, path)
    }

    fn path(text: &str) -> Path {
        Path::parse(text).unwrap()
    }

    #[test]
    fn the_list_is_laid_out_as_t5x_does() {
        let (_dir, output_dir) = folder();
        let mut done = DoneCheckpoints::read(&output_dir, "glue/cola").unwrap();
        for checkpoint in ["a/checkpoint_20", "a/checkpoint_3", "a/model.ckpt-4", "a/folder"] {
            done.add(&path(checkpoint)).unwrap();
        }
        let text = output_dir.join("eval.glue/cola.ckpt").read_to_string().unwrap();
        assert_eq!(text, "a/checkpoint_3\na/model.ckpt-4\na/checkpoint_20");
        let read = DoneCheckpoints::read(&output_dir, "glue/cola").unwrap();
        assert!(read.holds(&path("a/checkpoint_20/")) && !read.holds(&path("a/checkpoint_2")));
    }

    #[test]
    fn what_another_process_has_listed_stays() {
        let (_dir, output_dir) = folder();
        let [mut one, mut other] =
            [(); 2].map(|()| DoneCheckpoints::read(&output_dir, "task").unwrap());
        one.add(&path("a/checkpoint_1")).unwrap();
        other.add(&path("a/checkpoint_2")).unwrap();
        let text = output_dir.join("eval.task.ckpt").read_to_string().unwrap();
        assert_eq!(text, "a/checkpoint_1\na/checkpoint_2");
    }
}
