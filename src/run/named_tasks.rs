//! The tasks and splits that a run names, and whether they are declared. Nothing is opened for
//! this.

use crate::data::{DataError, Task, TaskProvider, subtasks};
use crate::gin::{
    Config, Diagnostic, Loaded, Registry, Running, Span, Value, ValueKind, did_you_mean, reach,
};

use super::tasks::GinTasks;

/// The parameter of a dataset that names a task or mixture.
const TASK: &str = "mixture_or_task_name";

/// The parameter that names a split of it.
const SPLIT: &str = "split";

/// A name and its place.
type Placed = (String, Span);

/// A task or mixture that a dataset of a run names, with its split.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedTask {
    /// The name of the task or mixture.
    pub task: Placed,
    /// Name of the split, if it is a text.
    pub split: Option<Placed>,
}

/// Returns the tasks of the datasets that the roots among the configurables that run reach.
pub fn named_tasks(loaded: &Loaded, running: &[Running], registry: &Registry) -> Vec<NamedTask> {
    let roots = running.iter().filter(|(scope, _)| scope.is_empty());
    let roots = roots.map(|(_, root)| (Vec::new(), *root));
    let reached = reach(&loaded.config, registry, roots);
    let mut out = Vec::new();
    for arguments in reached.sections.values() {
        let text = |name| written(arguments.get(name)?, &loaded.config);
        let named = text(TASK).map(|task| NamedTask { task, split: text(SPLIT) });
        out.extend(named.filter(|named| !out.contains(named)));
    }
    out
}

/// Returns the text of a value, directly or through macros, and its place.
fn written<'a>(mut value: &'a Value, config: &'a Config) -> Option<Placed> {
    // Macros that lead back to themselves have been reported before.
    for _ in 0..=config.macros.len() {
        match &value.kind {
            ValueKind::Str(text) => return Some((text.clone(), value.span)),
            ValueKind::Macro(used) => value = config.macro_value(&used.path())?,
            _ => return None,
        }
    }
    None
}

/// Reports a task that is not declared, or a split that the task's gin declaration does not have.
pub fn unknown_name(named: &NamedTask, tasks: &GinTasks) -> Option<Diagnostic> {
    let (task, place) = &named.task;
    if let Err(DataError::UnknownTask { name, suggestion }) = tasks.get(task) {
        let message = format!("no task or mixture is named `{name}`");
        let help = "`import MODULE` brings the tasks of a task file";
        return Some(at(*place, message).help(suggestion).help(help));
    }
    let (split, place) = named.split.as_ref()?;
    let name = split.split('[').next().unwrap_or_default();
    let splits = |task: &std::sync::Arc<Task>| task.source.written_splits();
    let of_tasks: Vec<Vec<String>> =
        subtasks(task, tasks).ok()?.iter().map(splits).collect::<Option<_>>()?;
    // A mixture omits tasks without the split.
    let is_known = of_tasks.iter().flatten().any(|known| known == name);
    if is_known || of_tasks.is_empty() || name.contains('+') {
        return None;
    }
    let help = did_you_mean(name, of_tasks.iter().flatten().map(String::as_str));
    Some(at(*place, format!("`{task}` has no split `{name}`")).help(help))
}

fn at(place: Span, message: String) -> Diagnostic {
    match place == Span::NOWHERE {
        true => Diagnostic::nowhere(message),
        false => Diagnostic::error(place, message),
    }
}
