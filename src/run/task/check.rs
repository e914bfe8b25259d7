//! `gimlet task check`: reports every mistake in tasks and mixtures at once.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use anyhow::anyhow;
use clap::Args;

use crate::data::{
    DataError, Task, TaskOrMixture, TaskProvider, mixture_stages, split_files_found, subtasks,
    task_splits,
};
use crate::gin::did_you_mean;
use crate::run::declarations::Declared;
use crate::run::failure::Failure;
use crate::run::output::{counted, write, write_error};
use crate::run::tasks::GinTasks;
use crate::storage::StorageError;
use crate::vocab::VocabularySpec;

use super::args::TaskFileArgs;

/// Flags of `gimlet task check`.
#[derive(Args, Debug)]
pub struct CheckArgs {
    /// Names of tasks and mixtures; by default those that the given files declare, and those that a run
    /// names.
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    /// Check the gin files, but neither vocabularies nor data.
    #[arg(long)]
    offline: bool,
    #[command(flatten)]
    files: TaskFileArgs,
}

/// Prints mistakes on standard error, and a summary.
pub(super) fn run(args: &CheckArgs, color: bool) -> Result<(), Failure> {
    if args.names.is_empty() && args.files.says_nothing() {
        return Err(Failure::usage(anyhow!(
            "nothing to check: name tasks, or give their files with --gin_file or --module_import"
        )));
    }
    let tasks = args.files.load(color)?;
    let selected = selected(args, &tasks)?;
    let declarations = if args.names.is_empty() { tasks.mistakes() } else { Vec::new() };
    for mistake in &declarations {
        write_error(&format!("error: {}\n", mistake.trim_end()));
    }
    let asked = (!args.offline).then(Asked::default);
    let mut bad = 0;
    let found = each(&selected, |one| mistakes(one, &tasks, asked.as_ref()));
    for (one, mistakes) in selected.iter().zip(found) {
        for mistake in mistakes.iter().filter(|mistake| !declarations.contains(mistake)) {
            let mistake = mistake.trim_end();
            write_error(&format!(
                "error: {} `{}` ({}): {mistake}\n",
                one.kind(),
                one.name,
                one.place
            ));
        }
        bad += usize::from(!mistakes.is_empty());
    }
    let mixtures = selected.iter().filter(|one| one.is_mixture).count();
    let tasks_of_all = counted(selected.len() - mixtures, "task");
    let all = format!("{tasks_of_all} and {}", counted(mixtures, "mixture"));
    match (bad, declarations.len()) {
        (0, 0) => write(&format!("{all}: no mistakes\n")),
        (0, unread) => {
            Err(Failure::usage(anyhow!("{} cannot be read", counted(unread, "declaration"))))
        }
        (bad, _) => Err(Failure::usage(anyhow!("{bad} of {all} cannot be used"))),
    }
}

fn selected(args: &CheckArgs, tasks: &GinTasks) -> Result<Vec<Declared>, Failure> {
    let declared = tasks.declared();
    let find = |name: &String| {
        declared.iter().find(|one| one.name == *name).cloned().ok_or_else(|| {
            if let Some(failure) = args.files.unknown(name, tasks) {
                return failure;
            }
            let suggestion = did_you_mean(name, declared.iter().map(|one| one.name.as_str()));
            let name = name.clone();
            Failure::usage(DataError::UnknownTask { name, suggestion })
        })
    };
    if !args.names.is_empty() {
        return args.names.iter().map(find).collect();
    }
    let mut selected: Vec<Declared> =
        declared.iter().filter(|one| args.files.declare(one)).cloned().collect();
    for name in tasks.named_by_run() {
        let named = find(&name)?;
        if !selected.contains(&named) {
            selected.push(named);
        }
    }
    Ok(selected)
}

/// Number of tasks that are checked at once: most of the time is spent waiting for servers.
const THREADS: usize = 32;

/// Calls `ask` on each item in many threads; returns the results in the order of the items.
fn each<T: Sync, R: Send + Sync>(items: &[T], ask: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let found: Vec<OnceLock<R>> = items.iter().map(|_| OnceLock::new()).collect();
    std::thread::scope(|scope| {
        for _ in 0..THREADS.min(items.len()) {
            scope.spawn(|| {
                while let index = next.fetch_add(1, Ordering::Relaxed)
                    && let (Some(item), Some(place)) = (items.get(index), found.get(index))
                {
                    place.get_or_init(|| ask(item));
                }
            });
        }
    });
    found.into_iter().map(|place| place.into_inner().expect("every item was asked")).collect()
}

/// Answers by question. Who asks a question that another thread is answering waits for that answer.
struct Answers<K, V>(Mutex<HashMap<K, Arc<OnceLock<V>>>>);

impl<K, V> Default for Answers<K, V> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Eq + Hash, V: Clone> Answers<K, V> {
    fn get(&self, question: K, ask: impl FnOnce() -> V) -> V {
        let place = {
            let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            known.entry(question).or_default().clone()
        };
        place.get_or_init(ask).clone()
    }
}

/// The answers about vocabularies and data that several tasks share. A server that cannot be reached is asked once, since it may
/// take long to fail.
#[derive(Default)]
struct Asked {
    /// The error of loading each vocabulary.
    vocabularies: Answers<VocabularySpec, Option<String>>,
    /// Whether the data of a source can be reached, and if not the error. Sources cannot be compared, so their debug text stands
    /// for them.
    unreachable: Answers<String, Option<String>>,
}

impl Asked {
    fn mistake_in(&self, spec: &VocabularySpec) -> Option<String> {
        let ask = || spec.build().err().map(|error| error.to_string());
        self.vocabularies.get(spec.clone(), ask)
    }

    /// Reports splits without files; only one of the tasks with the same data reports data out of
    /// reach.
    fn mistakes_in_data(&self, task: &Task) -> Vec<String> {
        let mut first = None;
        let unreachable = self.unreachable.get(format!("{:?}", task.source), || {
            let errors = errors_in_data(task);
            let is_unreachable = |error: &&DataError| {
                matches!(error, DataError::Storage(StorageError::Unreachable { .. }))
            };
            let unreachable = errors.iter().find(is_unreachable).map(DataError::to_string);
            first = Some(errors);
            unreachable
        });
        let errors = match (first, unreachable) {
            (None, Some(message)) => return vec![message],
            (Some(errors), _) => errors,
            (None, None) => errors_in_data(task),
        };
        errors.iter().map(DataError::to_string).collect()
    }
}

/// Returns the mistakes; with those in vocabularies and data unless checking offline.
fn mistakes(one: &Declared, tasks: &GinTasks, asked: Option<&Asked>) -> Vec<String> {
    match tasks.get(&one.name) {
        Err(error) => vec![error.to_string()],
        Ok(TaskOrMixture::Task(task)) => {
            let error = task.supports_caching().err().map(|error| error.to_string());
            let mut found: Vec<String> = error.into_iter().collect();
            if let Some(asked) = asked {
                let features = task.output_features.values();
                found.extend(features.filter_map(|feature| asked.mistake_in(&feature.vocabulary)));
                // Features usually share a vocabulary.
                found.dedup();
                found.extend(asked.mistakes_in_data(&task));
            }
            found
        }
        Ok(TaskOrMixture::Mixture(_)) => {
            // Rates may be numbers of examples, which need the data.
            let error = match asked {
                Some(_) => mixture_stages(&one.name, tasks).err(),
                None => subtasks(&one.name, tasks).err(),
            };
            error.map(|error| error.to_string()).into_iter().collect()
        }
    }
}

/// Reports splits without files, or the reason why there are no splits.
fn errors_in_data(task: &Task) -> Vec<DataError> {
    match task_splits(task) {
        Err(error) => vec![error],
        Ok(splits) => {
            splits.iter().filter_map(|split| split_files_found(task, split).err()).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_keep_the_order_of_questions_and_each_is_asked_once() {
        let asked = AtomicUsize::new(0);
        let answers = Answers::default();
        let items: Vec<u64> = (0..100).map(|i| i % 7).collect();
        let found = each(&items, |item| {
            answers.get(*item, || {
                asked.fetch_add(1, Ordering::Relaxed);
                item * 10
            })
        });
        assert_eq!(found, items.iter().map(|item| item * 10).collect::<Vec<_>>());
        assert_eq!(asked.into_inner(), 7);
    }
}
