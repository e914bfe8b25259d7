//! Tasks and mixtures by name, evaluated from task files on first use.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use crate::data::{
    Caches, CreateTaskFromTfexampleFile, DataError, Mixture, Task, TaskFamily, TaskOrMixture,
    TaskProvider, mixture_stages, subtasks,
};
use crate::gin::{Configurable, Evaluator, Fields, Loaded, Registry, Running, did_you_mean};

use super::configure::bound_roots;
use super::declarations::{Declaration, Declarations, Declared, Origin, checked, declared};
use super::derived::{Derived, part_of};
use super::named_tasks::named_tasks;

/// The tasks that a configuration declares, in task files and in its own.
pub struct GinTasks {
    loaded: Loaded,
    registry: Registry,
    caches: Caches,
    /// Computed on first use: families may have many rows.
    declarations: OnceLock<Declarations>,
    /// Tasks and mixtures evaluated before; mixtures ask for their tasks repeatedly.
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

    /// Returns the same tasks, with these caches.
    pub fn with_caches(self, caches: Caches) -> Self {
        Self { caches, ..self }
    }

    fn declarations(&self) -> &Declarations {
        self.declarations.get_or_init(|| declared(&self.loaded, &self.registry))
    }

    /// Whether a block declares the name, or that of a mixture whose derived tasks bear it as a prefix.
    pub fn declares(&self, name: &str) -> bool {
        let is_within = |known: &String| {
            name.strip_prefix(&known[..])
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        self.declarations().names.keys().any(is_within)
    }

    /// Returns the names of the tasks, without mixtures.
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
            Declaration::Mixture(_) => true,
            Declaration::Task(_) | Declaration::Row(..) | Declaration::TfExampleFile(_) => false,
            // This helper applies to mixtures only; reading the mixture's tasks would ask for their
            // data.
            Declaration::Derived(block) if !block.helper.renames_tasks() => true,
            Declaration::Derived(_) => matches!(self.get(name), Ok(TaskOrMixture::Mixture(_))),
        }
    }

    /// Returns every task and mixture, by name; those of derived mixtures too.
    pub fn declared(&self) -> Vec<Declared> {
        let mut all = Vec::new();
        for (name, (scope, declaration)) in &self.declarations().names {
            let one = Declared {
                name: name.clone(),
                is_mixture: self.is_mixture(name, declaration),
                place: declaration.place(scope, &self.loaded),
            };
            if matches!(declaration, Declaration::Derived(block) if block.helper.renames_tasks()) {
                self.add_parts(&one, &mut all);
            }
            all.push(one);
        }
        all.sort_by(|a, b| a.name.cmp(&b.name));
        all
    }

    /// Adds the tasks and mixtures within a derived mixture, which are new as well.
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

    /// Returns the error messages of the declarations themselves.
    pub fn mistakes(&self) -> Vec<String> {
        let Declarations { twice, unread, .. } = self.declarations();
        twice.values().chain(unread).cloned().collect()
    }

    /// The tasks and mixtures that the run's datasets name.
    pub fn named_by_run(&self) -> Vec<String> {
        let roots = bound_roots(&self.loaded.config, &self.registry);
        let running: Vec<Running> = roots.into_iter().map(|root| (String::new(), root)).collect();
        let named = named_tasks(&self.loaded, &running, &self.registry).into_iter();
        named.map(|named| named.task.0).collect()
    }

    fn evaluate<T: Configurable>(
        &self,
        (name, scope): (&str, &str),
        origin: Origin,
        row: Fields,
    ) -> Result<T, DataError> {
        let mut evaluator = Evaluator::new(origin.table(&self.loaded), &self.registry)
            .with_run_config(&self.loaded.config)
            .with_row(row.0, scope);
        let result = evaluator.evaluate_in::<T>(scope);
        checked(result, evaluator, &self.loaded)
            .map_err(|detail| DataError::Config(format!("task `{name}` cannot be used\n{detail}")))
    }
}

impl GinTasks {
    /// Finds a task or mixture; `within` names the derived ones that are being made.
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

    /// Evaluates a declaration that is not derived.
    fn evaluated(
        &self,
        name: &str,
        scope: &str,
        declaration: &Declaration,
    ) -> Result<TaskOrMixture, DataError> {
        Ok(match declaration {
            Declaration::Mixture(origin) => {
                let mixture =
                    self.evaluate::<Mixture>((name, scope), *origin, Fields::default())?;
                check_entries(&mixture)?;
                TaskOrMixture::Mixture(Arc::new(mixture))
            }
            Declaration::Task(origin) => {
                let task = self.evaluate::<Task>((name, scope), *origin, Fields::default())?;
                task.check()?;
                TaskOrMixture::Task(Arc::new(task))
            }
            Declaration::Row(origin, row) => {
                let family = self.evaluate::<TaskFamily>((name, scope), *origin, row.clone())?;
                let task = Task::from(family);
                task.check()?;
                TaskOrMixture::Task(Arc::new(task))
            }
            Declaration::TfExampleFile(origin) => {
                let created = self.evaluate::<CreateTaskFromTfexampleFile>(
                    (name, scope),
                    *origin,
                    Fields::default(),
                )?;
                TaskOrMixture::Task(Arc::new(Task::from(created)))
            }
            Declaration::Derived(_) => unreachable!("made of others"),
        })
    }

    fn unknown(&self, name: &str) -> DataError {
        let declared = self.declarations();
        if let Some(mistake) = declared.unread.first() {
            return DataError::Config(mistake.clone());
        }
        DataError::UnknownTask { name: name.to_string(), suggestion: self.suggestion(name) }
    }

    /// Returns the declared names that are near to a name, and which declarations could not be read.
    pub fn suggestion(&self, name: &str) -> String {
        let Declarations { names, unread, .. } = self.declarations();
        let near = did_you_mean(name, names.keys().map(String::as_str));
        let unread = unread.iter().filter_map(|mistake| mistake.lines().next());
        unread.fold(near, |near, unread| format!("{near}; not among them: {unread}"))
    }

    /// Finds one of the tasks of a derived mixture, `MIXTURE.TASK`.
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

    /// Returns `wanted` as made by the block that declares `new` in its scope.
    fn derived(
        &self,
        (new, scope, block): (&str, &str, Derived),
        wanted: &str,
        within: &[&str],
    ) -> Result<Option<TaskOrMixture>, DataError> {
        if within.contains(&new) {
            return Err(DataError::Config(format!("`{new}` is derived from itself")));
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

/// The tasks, as seen by derived ones that are being made.
struct Within<'a> {
    tasks: &'a GinTasks,
    /// The names of the tasks and mixtures being made, outermost first.
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

    fn placed(&self, name: &str, error: DataError) -> DataError {
        match self.mistaken(name, &error.to_string(), &mut BTreeSet::new()) {
            Some(found) => DataError::Mixture {
                mixture: found.name,
                place: found.place,
                error: Box::new(error),
            },
            None => error,
        }
    }
}

impl GinTasks {
    /// Returns the innermost mixture with the mistake, among the requested one and those within it.
    /// The mistake is computed again, because the error may as well be one of the data.
    fn mistaken(&self, name: &str, message: &str, seen: &mut BTreeSet<String>) -> Option<Declared> {
        // Mixtures may contain themselves, which is one of the mistakes.
        if !seen.insert(name.to_string()) {
            return None;
        }
        let Ok(TaskOrMixture::Mixture(mixture)) = self.get(name) else { return None };
        // A mixture that draws from no task asks for no rates, and may have another mistake first.
        let own = [mixture_stages(name, self).err(), subtasks(name, self).err()];
        if !own.iter().flatten().any(|error| error.to_string() == message) {
            return None;
        }
        let mut within = mixture.tasks.0.iter();
        within
            .find_map(|entry| self.mistaken(&entry.name, message, seen))
            .or_else(|| self.declared_as(name))
    }

    /// Returns a mixture as its own block declares it; derived parts have no block.
    fn declared_as(&self, name: &str) -> Option<Declared> {
        let (scope, declaration) = self.declarations().names.get(name)?;
        let place = declaration.place(scope, &self.loaded);
        Some(Declared { name: name.to_string(), is_mixture: true, place })
    }
}

/// Checks SeqIO's rule for names.
fn check_name(name: &str) -> Result<(), DataError> {
    let fits = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.' | ':' | '#' | '/' | '+');
    match name.chars().all(fits) {
        true => Ok(()),
        false => Err(DataError::Config(format!(
            "task name `{name}` contains invalid characters; use letters, digits, `_`, `.`, `:`, `#`"
        ))),
    }
}

/// Refuses a task that is listed twice, which would be drawn at the last of its rates.
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
