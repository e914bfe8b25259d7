//! Finds the cache of a task, or explains how to make it.

use super::folder::CacheFolder;
use crate::error::DataError;
use gimlet_storage::Path;

/// The folders that are searched for the caches of tasks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Caches {
    /// Folders of caches; the first one with a task's cache is used.
    pub folders: Vec<String>,
    /// The flags, as words, by which `gimlet cache` finds the same tasks as this run.
    pub task_flags: Vec<String>,
}

impl Caches {
    /// The complete cache of a task in the first folder that has it.
    ///
    /// # Errors
    /// Folders that cannot be listed.
    pub fn find(&self, task: &str) -> Result<Option<CacheFolder>, DataError> {
        for folder in &self.folders {
            let cache = CacheFolder::of(&Path::parse(folder)?, task);
            if cache.is_complete()? {
                return Ok(Some(cache));
            }
        }
        Ok(None)
    }

    /// The cache of a task that must have one.
    pub(crate) fn get(&self, task: &str) -> Result<CacheFolder, DataError> {
        match self.find(task)? {
            Some(cache) => Ok(cache),
            None => Err(self.not_cached(task)?),
        }
    }

    fn not_cached(&self, task: &str) -> Result<DataError, DataError> {
        let mut searched = Vec::new();
        for folder in &self.folders {
            let cache = CacheFolder::of(&Path::parse(folder)?, task);
            let begun = cache.path().is_dir()?;
            let state = if begun { " (there, but not complete)" } else { "" };
            searched.push(format!("`{}`{state}", cache.path()));
        }
        let searched = match searched.is_empty() {
            true => "no folder was searched".to_string(),
            false => format!("searched {}", searched.join(", ")),
        };
        // Without a folder to search, the run needs a flag for the new one.
        let (target, then) = match self.folders.first() {
            Some(folder) => (&folder[..], String::new()),
            None => {
                let flag = "--seqio_additional_cache_dirs=DIR";
                ("DIR", format!(" and give this run `{flag}`"))
            }
        };
        let mut words = vec!["gimlet cache".to_string()];
        words.extend(self.task_flags.iter().map(|flag| quoted(flag)));
        words.push(quoted(&format!("--tasks={task}")));
        words.push(quoted(&format!("--output_cache_dir={target}")));
        let command = format!("`{}`{then}", words.join(" "));
        Ok(DataError::NotCached { task: task.to_string(), searched, command })
    }
}

/// `--flag=value`, quoted for a shell.
fn quoted(flag: &str) -> String {
    let (name, value) = flag.split_once('=').unwrap_or((flag, ""));
    // A zero byte, which no shell accepts, cannot have come through one.
    let value = shlex::try_quote(value).unwrap_or(value.into());
    format!("{name}={value}")
}
