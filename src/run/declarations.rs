//! The tasks and mixtures that a configuration declares, in its task files or in blocks of its own.

use std::collections::BTreeMap;

use crate::data::{CreateTaskFromTfexampleFile, Mixture, Task, TaskFamily};
use crate::gin::{
    Config, Configurable, Diagnostics, Evaluator, Fields, Loaded, Registry, Rows, Value, ValueKind,
};

use super::derived::{Derived, derived};

/// The texts that declare a task: a task file's, or the run's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    TaskFile,
    Run,
}

impl Origin {
    pub const ALL: [Self; 2] = [Self::TaskFile, Self::Run];

    /// Returns the bindings that contain the block.
    pub fn table(self, loaded: &Loaded) -> &Config {
        match self {
            Self::TaskFile => &loaded.tasks,
            Self::Run => &loaded.config,
        }
    }
}

/// The declaration of a task or mixture.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Declaration {
    /// `seqio.Task` in its scope.
    Task(Origin),
    /// `seqio.Mixture` in its scope.
    Mixture(Origin),
    /// A row of `seqio.TaskFamily` in its scope.
    Row(Origin, Fields),
    /// A call in its scope that makes a task of files.
    TfExampleFile(Origin),
    /// A block in its scope that derives a task or mixture from another.
    Derived(Derived),
}

impl Declaration {
    /// Returns `file:line` of the first binding in a task's scope.
    pub fn place(&self, scope: &str, loaded: &Loaded) -> String {
        let (origin, schema) = match self {
            Self::Task(origin) => (origin, Task::schema()),
            Self::Mixture(origin) => (origin, Mixture::schema()),
            Self::Row(origin, _) => (origin, TaskFamily::schema()),
            Self::TfExampleFile(origin) => (origin, CreateTaskFromTfexampleFile::schema()),
            Self::Derived(block) => (&block.origin, block.helper.schema()),
        };
        let bindings = origin.table(loaded).bindings.get(&(scope.to_string(), schema.name));
        let keys = bindings.into_iter().flat_map(|bound| bound.values().map(|bound| bound.key));
        let Some(first) = keys.min_by_key(|key| (key.file, key.start)) else {
            return "a declaration without bindings".to_string();
        };
        let sources = &loaded.sources;
        format!("{}:{}", sources.file(first.file).name, sources.line_column(first).0)
    }
}

/// Name to scope and declaration of every task and mixture that a configuration declares.
#[derive(Clone, Debug, Default)]
pub(super) struct Declarations {
    /// By name.
    pub names: BTreeMap<String, (String, Declaration)>,
    /// Names that several blocks declare, each with its error message.
    pub twice: BTreeMap<String, String>,
    /// Error messages of families and derived tasks whose names cannot be read.
    pub unread: Vec<String>,
}

impl Declarations {
    fn add(&mut self, name: String, scope: &str, declaration: Declaration, loaded: &Loaded) {
        let place = declaration.place(scope, loaded);
        let found = (scope.to_string(), declaration);
        if let Some((other, earlier)) = self.names.insert(name.clone(), found) {
            let earlier = earlier.place(&other, loaded);
            let mistake = format!(
                "`{name}` is declared twice, at {earlier} and at {place}; rename one of them"
            );
            self.twice.insert(name, mistake);
        }
    }
}

/// A task or mixture, as far as its declaration describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Declared {
    /// Its name.
    pub name: String,
    /// Whether it is a mixture.
    pub is_mixture: bool,
    /// `file:line` of its first binding; a family's for each of its tasks.
    pub place: String,
}

impl Declared {
    /// Returns `mixture` or `task`.
    pub fn kind(&self) -> &'static str {
        if self.is_mixture { "mixture" } else { "task" }
    }
}

/// Returns the declarations of a configuration, in its task files and in its own files.
pub(super) fn declared(loaded: &Loaded, registry: &Registry) -> Declarations {
    let mut out = Declarations::default();
    for origin in Origin::ALL {
        declared_in(origin, loaded, registry, &mut out);
    }
    for found in derived(loaded, registry) {
        match found {
            Ok((name, scope, block)) => {
                out.add(name, &scope, Declaration::Derived(block), loaded);
            }
            Err(mistake) => out.unread.push(mistake),
        }
    }
    out
}

/// Adds the tasks, mixtures and families of one table.
fn declared_in(origin: Origin, loaded: &Loaded, registry: &Registry, out: &mut Declarations) {
    let table = origin.table(loaded);
    for (schema, declaration) in [
        (Task::schema(), Declaration::Task(origin)),
        (Mixture::schema(), Declaration::Mixture(origin)),
    ] {
        for scope in table.scopes_of(schema.name) {
            let parts: Vec<String> = scope.split('/').map(str::to_string).collect();
            let named = table.bound(&parts, schema.name, "name");
            let name = match named {
                Some(Value { kind: ValueKind::Str(name), .. }) => name.clone(),
                _ => scope.to_string(),
            };
            if !name.is_empty() {
                out.add(name, scope, declaration.clone(), loaded);
            }
        }
    }
    for scope in table.scopes_of(CreateTaskFromTfexampleFile::schema().name) {
        let mut cx = Evaluator::new(table, registry).with_run_config(&loaded.config);
        let created = cx.evaluate_in::<CreateTaskFromTfexampleFile>(scope);
        match checked(created, cx, loaded) {
            Ok(created) => {
                out.add(created.task_name(), scope, Declaration::TfExampleFile(origin), loaded);
            }
            Err(detail) => out.unread.push(format!("the task of files cannot be used\n{detail}")),
        }
    }
    for scope in table.scopes_of(TaskFamily::schema().name) {
        match rows(origin, loaded, registry, scope) {
            Ok(rows) => {
                for (name, row) in rows {
                    out.add(name, scope, Declaration::Row(origin, row), loaded);
                }
            }
            Err(detail) => {
                out.unread.push(format!("task family `{scope}` cannot be used\n{detail}"));
            }
        }
    }
}

/// Returns the rows of a family, each completed by the defaults, with the name of its task.
fn rows(
    origin: Origin,
    loaded: &Loaded,
    registry: &Registry,
    scope: &str,
) -> Result<Vec<(String, Fields)>, String> {
    let new = || Evaluator::new(origin.table(loaded), registry).with_run_config(&loaded.config);
    let mut evaluator = new();
    let rows = evaluator.argument_in::<TaskFamily, Rows>(scope, "rows", None);
    let defaults =
        evaluator.argument_in::<TaskFamily, Fields>(scope, "defaults", Some(Fields::default));
    let (Rows(rows), Fields(defaults)) =
        checked(rows.and_then(|rows| Ok((rows, defaults?))), evaluator, loaded)?;
    let mut out = Vec::with_capacity(rows.len());
    for Fields(row) in rows {
        let mut fields = defaults.clone();
        fields.extend(row);
        let mut evaluator = new().with_row(fields.clone(), scope);
        let name = evaluator.argument_in::<TaskFamily, String>(scope, "name", None);
        out.push((checked(name, evaluator, loaded)?, Fields(fields)));
    }
    Ok(out)
}

/// Returns the result, if there are no errors.
pub(super) fn checked<T, E>(
    result: Result<T, E>,
    evaluator: Evaluator<'_>,
    loaded: &Loaded,
) -> Result<T, String> {
    let list = evaluator.into_diagnostics();
    match result {
        Ok(result) if list.is_empty() => Ok(result),
        _ => Err(Diagnostics { sources: loaded.sources.clone(), list }.render(false)),
    }
}
