//! Finds the cache of a task, or explains how to make it.

use super::folder::CacheFolder;
use super::step::cache_step;
use crate::error::DataError;
use crate::task::Task;
use gimlet_storage::Path;
use gimlet_telemetry::quoted_names;

/// Tasks that a message names.
const MOST_NAMED: usize = 5;

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
            None => Err(self.not_cached(task, &[task], 1)?),
        }
    }

    /// Checks that the tasks that a name refers to have caches, as far as they have a cache step.
    ///
    /// # Errors
    /// All tasks without a cache, in one message.
    pub fn require<'a>(
        &self,
        name: &str,
        tasks: impl IntoIterator<Item = &'a Task>,
    ) -> Result<(), DataError> {
        let (mut missing, mut count) = (Vec::new(), 0);
        for task in tasks {
            if cache_step(task)?.is_some() {
                count += 1;
                missing.extend(self.find(task.task_name())?.is_none().then(|| task.task_name()));
            }
        }
        match missing.is_empty() {
            true => Ok(()),
            false => Err(self.not_cached(name, &missing, count)?),
        }
    }

    /// The error of tasks that a name refers to, of so many.
    fn not_cached(&self, name: &str, tasks: &[&str], count: usize) -> Result<DataError, DataError> {
        let missing = match tasks {
            [task] if *task == name => {
                format!(
                    "`{name}` is to be read from its cache (`use_cached = True`), and there is none"
                )
            }
            _ => format!(
                "`{name}` is to be read from caches (`use_cached = True`), and there are none for {} of its \
                 {count} tasks: {}",
                tasks.len(),
                quoted_names(tasks, MOST_NAMED)
            ),
        };
        let mut searched = Vec::new();
        for folder in &self.folders {
            let place = match tasks {
                [task] => CacheFolder::of(&Path::parse(folder)?, task).path().clone(),
                _ => Path::parse(folder)?,
            };
            let begun = tasks.len() == 1 && place.is_dir()?;
            let state = if begun { " (there, but not complete)" } else { "" };
            searched.push(format!("`{place}`{state}"));
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
        words.push(quoted(&format!("--tasks={name}")));
        words.push(quoted(&format!("--output_cache_dir={target}")));
        let command = format!("`{}`{then}", words.join(" "));
        Ok(DataError::NotCached { missing, searched, command })
    }
}

/// `--flag=value`, quoted for a shell.
fn quoted(flag: &str) -> String {
    let (name, value) = flag.split_once('=').unwrap_or((flag, ""));
    // A zero byte, which no shell accepts, cannot have come through one.
    let value = shlex::try_quote(value).unwrap_or(value.into());
    format!("{name}={value}")
}
