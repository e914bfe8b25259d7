//! Tasks and mixtures by name, evaluated from task files when first asked for.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use crate::data::{Caches, DataError, Mixture, Task, TaskFamily, TaskOrMixture, TaskProvider};
use crate::gin::{
    Configurable, Diagnostics, Evaluator, Fields, Loaded, Registry, Rows, Value, ValueKind,
    did_you_mean,
};

use super::derived::{Derived, derived, part_of};

/// What declares a task or mixture.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Declaration {
    /// `seqio.Task` in its scope.
    Task,
    /// `seqio.Mixture` in its scope.
    Mixture,
    /// A row of `seqio.TaskFamily` in its scope.
    Row(Fields),
    /// A block in its scope that makes a task or mixture of another.
    Derived(Derived),
}

/// Name to scope and declaration of every task and mixture that task files declare.
#[derive(Clone, Debug, Default)]
pub(super) struct Declarations {
    /// By name.
    pub names: BTreeMap<String, (String, Declaration)>,
    /// Names that several blocks declare, and what is wrong with that.
    twice: BTreeMap<String, String>,
    /// What is wrong with families and derived tasks whose names cannot be read.
    unread: Vec<String>,
}

impl Declarations {
    fn add(&mut self, name: String, scope: &str, declaration: Declaration) {
        let found = (scope.to_string(), declaration);
        if let Some((other, _)) = self.names.insert(name.clone(), found) {
            let mistake = format!(
                "`{name}` is declared twice, in scope `{other}` and in scope `{scope}`; give one of \
                 them another name"
            );
            self.twice.insert(name, mistake);
        }
    }
}

/// A task or mixture, as far as its declaration says.
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
    /// What it is, in a word.
    pub fn kind(&self) -> &'static str {
        if self.is_mixture { "mixture" } else { "task" }
    }
}

/// What the task files of a configuration declare.
pub(super) fn declared(loaded: &Loaded, registry: &Registry) -> Declarations {
    let tasks = &loaded.tasks;
    let mut out = Declarations::default();
    for (schema, declaration) in
        [(Task::schema(), Declaration::Task), (Mixture::schema(), Declaration::Mixture)]
    {
        for scope in tasks.scopes_of(schema.name) {
            let parts: Vec<String> = scope.split('/').map(str::to_string).collect();
            let named = tasks.bound(&parts, schema.name, "name");
            let name = match named {
                Some(Value { kind: ValueKind::Str(name), .. }) => name.clone(),
                _ => scope.to_string(),
            };
            if !name.is_empty() {
                out.add(name, scope, declaration.clone());
            }
        }
    }
    for scope in tasks.scopes_of(TaskFamily::schema().name) {
        match rows(loaded, registry, scope) {
            Ok(rows) => {
                for (name, row) in rows {
                    out.add(name, scope, Declaration::Row(row));
                }
            }
            Err(detail) => {
                out.unread.push(format!("task family `{scope}` cannot be used\n{detail}"));
            }
        }
    }
    for found in derived(loaded, registry) {
        match found {
            Ok((name, scope, block)) => out.add(name, &scope, Declaration::Derived(block)),
            Err(mistake) => out.unread.push(mistake),
        }
    }
    out
}

/// The rows of a family, each completed by the defaults, with the name of its task.
fn rows(
    loaded: &Loaded,
    registry: &Registry,
    scope: &str,
) -> Result<Vec<(String, Fields)>, String> {
    let new = || Evaluator::new(&loaded.tasks, registry).with_run_config(&loaded.config);
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

/// The result, if nothing is wrong.
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

/// The tasks that a configuration's task files declare.
pub struct GinTasks {
    loaded: Loaded,
    registry: Registry,
    caches: Caches,
    /// Made when first asked for: the rows of families may be many.
    declarations: OnceLock<Declarations>,
    /// What was evaluated already: mixtures ask for their tasks again and again.
    evaluated: Mutex<BTreeMap<String, TaskOrMixture>>,
}

impl std::fmt::Debug for GinTasks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("GinTasks").field("names", &self.declarations().names.keys()).finish()
    }
}

impl GinTasks {
    /// The tasks of a loaded configuration.
    pub fn new(loaded: Loaded, registry: Registry) -> Self {
        let (declarations, evaluated) = (OnceLock::new(), Mutex::default());
        Self { loaded, registry, caches: Caches::default(), declarations, evaluated }
    }

    /// The same tasks, whose caches are looked for there.
    pub fn with_caches(self, caches: Caches) -> Self {
        Self { caches, ..self }
    }

    fn declarations(&self) -> &Declarations {
        self.declarations.get_or_init(|| declared(&self.loaded, &self.registry))
    }

    /// The names of the tasks, mixtures left out.
    pub fn task_names(&self) -> Vec<String> {
        self.names(false)
    }

    /// The names of the mixtures.
    pub fn mixture_names(&self) -> Vec<String> {
        self.names(true)
    }

    fn names(&self, mixtures: bool) -> Vec<String> {
        let declared = self.declared().into_iter();
        declared.filter(|one| one.is_mixture == mixtures).map(|one| one.name).collect()
    }

    fn is_mixture(&self, name: &str, declaration: &Declaration) -> bool {
        match declaration {
            Declaration::Mixture => true,
            Declaration::Task | Declaration::Row(_) => false,
            // Only mixtures lose tasks; looking at its tasks would ask for their data.
            Declaration::Derived(block) if !block.helper.renames_tasks() => true,
            Declaration::Derived(_) => matches!(self.get(name), Ok(TaskOrMixture::Mixture(_))),
        }
    }

    /// Every task and mixture, by name; those of derived mixtures too.
    pub fn declared(&self) -> Vec<Declared> {
        let mut all = Vec::new();
        for (name, (scope, declaration)) in &self.declarations().names {
            let one = Declared {
                name: name.clone(),
                is_mixture: self.is_mixture(name, declaration),
                place: self.place(scope, declaration),
            };
            if matches!(declaration, Declaration::Derived(block) if block.helper.renames_tasks()) {
                self.add_parts(&one, &mut all);
            }
            all.push(one);
        }
        all.sort_by(|a, b| a.name.cmp(&b.name));
        all
    }

    /// Adds the tasks and mixtures of a derived mixture, which are new as well.
    fn add_parts(&self, of: &Declared, all: &mut Vec<Declared>) {
        let Ok(TaskOrMixture::Mixture(mixture)) = self.get(&of.name) else { return };
        for entry in &mixture.tasks.0 {
            let is_mixture = matches!(self.get(&entry.name), Ok(TaskOrMixture::Mixture(_)));
            let part = Declared { name: entry.name.clone(), is_mixture, place: of.place.clone() };
            if is_mixture {
                self.add_parts(&part, all);
            }
            all.push(part);
        }
    }

    /// `file:line` of the first binding in a task's scope.
    fn place(&self, scope: &str, declaration: &Declaration) -> String {
        let schema = match declaration {
            Declaration::Task => Task::schema(),
            Declaration::Mixture => Mixture::schema(),
            Declaration::Row(_) => TaskFamily::schema(),
            Declaration::Derived(block) => block.helper.schema(),
        };
        let table = match declaration {
            Declaration::Derived(block) => block.table(&self.loaded),
            _ => &self.loaded.tasks,
        };
        let bindings = table.bindings.get(&(scope.to_string(), schema.name));
        let keys = bindings.into_iter().flat_map(|bound| bound.values().map(|bound| bound.key));
        let Some(first) = keys.min_by_key(|key| (key.file, key.start)) else {
            return "a declaration without bindings".to_string();
        };
        let sources = &self.loaded.sources;
        format!("{}:{}", sources.file(first.file).name, sources.line_column(first).0)
    }

    /// What is wrong with the declarations themselves, in words.
    pub fn mistakes(&self) -> Vec<String> {
        let Declarations { twice, unread, .. } = self.declarations();
        twice.values().chain(unread).cloned().collect()
    }

    fn evaluate<T: Configurable>(
        &self,
        name: &str,
        scope: &str,
        row: Fields,
    ) -> Result<T, DataError> {
        let mut evaluator = Evaluator::new(&self.loaded.tasks, &self.registry)
            .with_run_config(&self.loaded.config)
            .with_row(row.0, scope);
        let result = evaluator.evaluate_in::<T>(scope);
        checked(result, evaluator, &self.loaded)
            .map_err(|detail| DataError::Config(format!("task `{name}` cannot be used\n{detail}")))
    }
}

impl GinTasks {
    /// What a name stands for, while the derived tasks and mixtures named in `within` are being made.
    fn find(&self, name: &str, within: &[&str]) -> Result<TaskOrMixture, DataError> {
        let declared = self.declarations();
        if let Some(mistake) = declared.twice.get(name) {
            return Err(DataError::Config(mistake.clone()));
        }
        let Some((scope, declaration)) = declared.names.get(name) else {
            return match self.part_of_derived(name, within)? {
                Some(part) => Ok(part),
                None => Err(self.unknown(name)),
            };
        };
        check_name(name)?;
        if let Declaration::Derived(block) = declaration {
            let made = self.derived((name, scope, *block), name, within)?;
            return Ok(made.expect("a block makes what has its name"));
        }
        let evaluated = || self.evaluated.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = evaluated().get(name) {
            return Ok(known.clone());
        }
        let found = self.evaluated(name, scope, declaration)?;
        evaluated().insert(name.to_string(), found.clone());
        Ok(found)
    }

    /// What a block other than a derived one declares.
    fn evaluated(
        &self,
        name: &str,
        scope: &str,
        declaration: &Declaration,
    ) -> Result<TaskOrMixture, DataError> {
        Ok(match declaration {
            Declaration::Mixture => {
                let mixture = self.evaluate::<Mixture>(name, scope, Fields::default())?;
                check_entries(&mixture)?;
                TaskOrMixture::Mixture(Arc::new(mixture))
            }
            Declaration::Task => {
                let task = self.evaluate(name, scope, Fields::default())?;
                TaskOrMixture::Task(Arc::new(task))
            }
            Declaration::Row(row) => {
                let family = self.evaluate::<TaskFamily>(name, scope, row.clone())?;
                TaskOrMixture::Task(Arc::new(family.into()))
            }
            Declaration::Derived(_) => unreachable!("made of others"),
        })
    }

    fn unknown(&self, name: &str) -> DataError {
        let declared = self.declarations();
        if let Some(mistake) = declared.unread.first() {
            return DataError::Config(mistake.clone());
        }
        let suggestion = did_you_mean(name, declared.names.keys().map(String::as_str));
        DataError::UnknownTask { name: name.to_string(), suggestion }
    }

    /// One of the tasks of a derived mixture, `MIXTURE.TASK`.
    fn part_of_derived(
        &self,
        name: &str,
        within: &[&str],
    ) -> Result<Option<TaskOrMixture>, DataError> {
        for (new, (scope, declaration)) in &self.declarations().names {
            let is_within = name.strip_prefix(&new[..]).is_some_and(|rest| rest.starts_with('.'));
            if let (true, Declaration::Derived(block)) = (is_within, declaration)
                && let Some(part) = self.derived((new, scope, *block), name, within)?
            {
                return Ok(Some(part));
            }
        }
        Ok(None)
    }

    /// What `wanted` stands for, as the block that declares `new` in its scope makes it.
    fn derived(
        &self,
        (new, scope, block): (&str, &str, Derived),
        wanted: &str,
        within: &[&str],
    ) -> Result<Option<TaskOrMixture>, DataError> {
        if within.contains(&new) {
            return Err(DataError::Config(format!("`{new}` is made of itself")));
        }
        let derivation = block
            .evaluate(&self.loaded, &self.registry, scope)
            .map_err(|detail| DataError::Config(format!("`{new}` cannot be used\n{detail}")))?;
        if wanted != new && !block.helper.renames_tasks() {
            return Ok(None);
        }
        let tasks = Within { tasks: self, names: [within, &[new]].concat() };
        part_of(&derivation, derivation.original(), new, wanted, &tasks)
    }
}

/// The tasks, as derived ones that are being made see them.
struct Within<'a> {
    tasks: &'a GinTasks,
    /// The names of what is being made, outermost first.
    names: Vec<&'a str>,
}

impl TaskProvider for Within<'_> {
    fn caches(&self) -> Caches {
        self.tasks.caches()
    }

    fn get(&self, name: &str) -> Result<TaskOrMixture, DataError> {
        self.tasks.find(name, &self.names)
    }
}

impl TaskProvider for GinTasks {
    fn caches(&self) -> Caches {
        self.caches.clone()
    }

    fn get(&self, name: &str) -> Result<TaskOrMixture, DataError> {
        self.find(name, &[])
    }
}

/// SeqIO's rule for names.
fn check_name(name: &str) -> Result<(), DataError> {
    let fits = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.' | ':' | '#' | '/' | '+');
    match name.chars().all(fits) {
        true => Ok(()),
        false => Err(DataError::Config(format!(
            "task name `{name}` contains invalid characters; use letters, digits, `_`, `.`, `:`, `#`"
        ))),
    }
}

/// A task that is listed twice would be drawn at the last of its rates.
fn check_entries(mixture: &Mixture) -> Result<(), DataError> {
    let mut seen = BTreeSet::new();
    match mixture.tasks.0.iter().find(|entry| !seen.insert(&entry.name)) {
        None => Ok(()),
        Some(entry) => Err(DataError::Config(format!(
            "mixture `{}` lists `{}` twice",
            mixture.mixture_name(),
            entry.name
        ))),
    }
}
