//! `gimlet task check`: every mistake in tasks and mixtures, at once.

use std::collections::HashMap;

use anyhow::anyhow;
use clap::Args;

use crate::data::{
    DataError, Task, TaskOrMixture, TaskProvider, mixture_rates, split_files_found, subtasks,
    task_splits,
};
use crate::gin::did_you_mean;
use crate::run::failure::Failure;
use crate::run::output::write;
use crate::run::tasks::{Declared, GinTasks};
use crate::vocab::VocabularySpec;

use super::TaskFileArgs;

/// Flags of `gimlet task check`.
#[derive(Args, Debug)]
pub struct CheckArgs {
    /// Names of tasks and mixtures; all by default.
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    /// Check what gin files say, and neither vocabularies nor data.
    #[arg(long)]
    offline: bool,
    #[command(flatten)]
    files: TaskFileArgs,
}

/// Prints what is wrong on standard error, and a summary.
pub(super) fn run(args: &CheckArgs, color: bool) -> Result<(), Failure> {
    let tasks = args.files.load(color)?;
    let selected = selected(&args.names, &tasks)?;
    let mut bad = 0;
    // Families whose rows cannot be read declare no tasks that could be asked for.
    for mistake in tasks.mistakes() {
        eprintln!("error: {}", mistake.trim_end());
        bad += 1;
    }
    let mut vocabularies = (!args.offline).then(Vocabularies::default);
    for one in &selected {
        let mistakes = mistakes(one, &tasks, vocabularies.as_mut());
        for mistake in &mistakes {
            let mistake = mistake.trim_end();
            eprintln!("error: {} `{}` ({}): {mistake}", one.kind(), one.name, one.place);
        }
        bad += usize::from(!mistakes.is_empty());
    }
    let mixtures = selected.iter().filter(|one| one.is_mixture).count();
    let all = format!("{} tasks and {mixtures} mixtures", selected.len() - mixtures);
    match bad {
        0 => write(&format!("{all}: no mistakes\n")),
        bad => Err(Failure::usage(anyhow!("{bad} of {all} cannot be used"))),
    }
}

fn selected(names: &[String], tasks: &GinTasks) -> Result<Vec<Declared>, Failure> {
    let declared = tasks.declared();
    if names.is_empty() {
        return Ok(declared);
    }
    let find = |name: &String| {
        declared.iter().find(|one| one.name == *name).cloned().ok_or_else(|| {
            let suggestion = did_you_mean(name, declared.iter().map(|one| one.name.as_str()));
            let name = name.clone();
            Failure::usage(DataError::UnknownTask { name, suggestion })
        })
    };
    names.iter().map(find).collect()
}

/// Why vocabularies cannot be loaded; each is tried once, since a network may take its time to fail.
#[derive(Default)]
struct Vocabularies(HashMap<VocabularySpec, Option<String>>);

impl Vocabularies {
    fn mistake(&mut self, spec: &VocabularySpec) -> Option<String> {
        let tried = self.0.entry(spec.clone());
        tried.or_insert_with(|| spec.build().err().map(|error| error.to_string())).clone()
    }
}

/// What is wrong; with files too where there are `vocabularies` to be tried.
fn mistakes(
    one: &Declared,
    tasks: &GinTasks,
    vocabularies: Option<&mut Vocabularies>,
) -> Vec<String> {
    match tasks.get(&one.name) {
        Err(error) => vec![error.to_string()],
        Ok(TaskOrMixture::Task(task)) => {
            let error = task.supports_caching().err().map(|error| error.to_string());
            let mut found: Vec<String> = error.into_iter().collect();
            if let Some(vocabularies) = vocabularies {
                found.extend(mistakes_in_files(&task, vocabularies));
            }
            found
        }
        Ok(TaskOrMixture::Mixture(_)) => {
            // Rates may be numbers of examples, which only the data tell.
            let error = match vocabularies {
                Some(_) => mixture_rates(&one.name, tasks).err(),
                None => subtasks(&one.name, tasks).err(),
            };
            error.map(|error| error.to_string()).into_iter().collect()
        }
    }
}

/// Vocabularies that cannot be loaded, and splits without files.
fn mistakes_in_files(task: &Task, vocabularies: &mut Vocabularies) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for feature in task.output_features.values() {
        found.extend(vocabularies.mistake(&feature.vocabulary));
    }
    // Features mostly share a vocabulary.
    found.dedup();
    match task_splits(task) {
        Err(error) => found.push(error.to_string()),
        Ok(splits) => {
            let errors = splits.iter().filter_map(|split| split_files_found(task, split).err());
            found.extend(errors.map(|error| error.to_string()));
        }
    }
    found
}
