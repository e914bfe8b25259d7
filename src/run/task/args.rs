//! Arguments that several tools for tasks take, and the tasks that they name.

use std::path::Path;
use std::sync::Arc;

use anyhow::anyhow;
use clap::Args;

use crate::data::{Caches, DataError, Task, TaskProvider, subtasks};
use crate::gin::{TASK_LIBRARY, did_you_mean};

use super::super::configure::configure_tasks;
use super::super::declarations::Declared;
use super::super::failure::Failure;
use super::super::gin_flags::{GinArgs, parse_module};
use super::super::library::Library;
use super::super::output::write_error;
use super::super::tasks::GinTasks;
use super::elsewhere::remedy;

/// The source of a tool's tasks: gin files and modules, or all that come with Gimlet.
#[derive(Args, Debug)]
pub struct TaskFileArgs {
    /// The task files, or a run's gin file, which imports its tasks.
    #[command(flatten)]
    gin: GinArgs,
    /// Module with tasks, as gin's `import` names it; may be repeated.
    #[arg(long = "module_import", alias = "task_module", value_name = "MODULE", value_parser = parse_module)]
    module_import: Vec<String>,
}

impl TaskFileArgs {
    /// Reads the task files.
    pub(super) fn load(&self, color: bool) -> Result<GinTasks, Failure> {
        let modules = match self.says_nothing() {
            true => library_modules(),
            false => self.module_import.clone(),
        };
        let (tasks, warnings) = configure_tasks(&self.gin, &modules, &Library, color)?;
        write_error(&warnings);
        Ok(tasks.with_caches(self.caches()))
    }

    /// Returns the tasks that a name stands for, in the files that were read as `tasks`.
    pub(super) fn tasks_of(&self, name: &str, tasks: &GinTasks) -> Result<Vec<Arc<Task>>, Failure> {
        tasks_of(name, tasks).map_err(|failure| match tasks.declares(name) {
            true => failure,
            false => self.unknown(name, tasks).unwrap_or(failure),
        })
    }

    /// Returns the error for a name that the given files do not declare, if the working directory says more or no file is
    /// given.
    pub(super) fn unknown(&self, name: &str, tasks: &GinTasks) -> Option<Failure> {
        let is_given = |remedy: &String| {
            self.module_import.iter().any(|module| remedy.ends_with(&format!("_import={module}")))
        };
        let found = remedy(name, Path::new(".")).filter(|remedy| !is_given(remedy));
        // Families of the library that cannot be read are no answer to another name.
        let near = || self.says_nothing().then(|| tasks.suggestion(name));
        let suggestion = found.or_else(near)?;
        Some(Failure::usage(DataError::UnknownTask { name: name.to_string(), suggestion }))
    }

    /// Whether no file, binding or module is given.
    pub(super) fn says_nothing(&self) -> bool {
        let files = &self.gin.files;
        files.gin_file.is_empty() && files.gin_bindings.is_empty() && self.module_import.is_empty()
    }

    /// Whether the given files declare it; a module of the library that they only import does not
    /// count.
    pub(super) fn declare(&self, one: &Declared) -> bool {
        let Some(path) = one.place.strip_prefix(TASK_LIBRARY) else { return true };
        let path = path.trim_start_matches('/');
        let file = |module: &String| format!("{}.gin:", module.replace('.', "/"));
        self.module_import.iter().any(|module| path.starts_with(&file(module)))
    }

    /// Returns the folders with the caches of the tasks.
    pub(super) fn caches(&self) -> Caches {
        let mut caches = self.gin.caches();
        let modules = self.module_import.iter();
        caches.task_flags.extend(modules.map(|module| format!("--module_import={module}")));
        caches
    }
}

/// Returns every module of the task library.
fn library_modules() -> Vec<String> {
    let files = Library::files();
    let inner = files.iter().filter_map(|(name, _)| {
        name.strip_prefix(TASK_LIBRARY)?.trim_start_matches('/').strip_suffix(".gin")
    });
    inner.map(|path| path.replace('/', ".")).collect()
}

/// Converts an error to a mistake of the user's or another fault.
pub(in crate::run) fn failure(error: DataError) -> Failure {
    if error.is_users() { Failure::usage(error) } else { Failure::world(error) }
}

/// Returns the tasks that a name stands for; an error in a mixture carries its place.
pub(super) fn tasks_of(name: &str, tasks: &GinTasks) -> Result<Vec<Arc<Task>>, Failure> {
    subtasks(name, tasks).map_err(|error| failure(tasks.placed(name, error)))
}

/// Refuses a length of a feature that none of the tasks has.
pub(super) fn check_lengths(given: &[(String, usize)], tasks: &[Arc<Task>]) -> Result<(), Failure> {
    let features = || tasks.iter().flat_map(|task| task.output_features.keys());
    match given.iter().find(|(name, _)| !features().any(|known| known == name)) {
        None => Ok(()),
        Some((name, _)) => Err(Failure::usage(anyhow!(
            "--task_feature_lengths names '{name}', which is no output feature of the task: {}",
            did_you_mean(name, features().map(String::as_str))
        ))),
    }
}

/// Parses the lengths of `--task_feature_lengths`: `inputs=512,targets=114`.
pub(super) fn parse_length(text: &str) -> Result<(String, usize), String> {
    let expected = || format!("expected FEATURE=LENGTH, found `{text}`");
    let (feature, length) = text.split_once('=').ok_or_else(expected)?;
    let length = length.trim().parse().map_err(|_| expected())?;
    Ok((feature.trim().to_string(), length))
}
