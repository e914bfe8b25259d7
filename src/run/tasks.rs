//! Tasks and mixtures by name, evaluated from task files when first asked for.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::data::{Caches, DataError, Mixture, Task, TaskOrMixture, TaskProvider};
use crate::gin::{
    Config, Configurable, Diagnostics, Evaluator, Loaded, Registry, Value, ValueKind, did_you_mean,
};

/// Name to `(scope, whether it is a mixture)` of every task and mixture that task files declare.
pub(super) fn declared(tasks: &Config) -> BTreeMap<String, (String, bool)> {
    let mut out = BTreeMap::new();
    for (schema, mixture) in [(Task::schema(), false), (Mixture::schema(), true)] {
        for scope in tasks.scopes_of(schema.name) {
            let parts: Vec<String> = scope.split('/').map(str::to_string).collect();
            let named = tasks.bound(&parts, schema.name, "name");
            let name = match named {
                Some(Value { kind: ValueKind::Str(name), .. }) => name.clone(),
                _ => scope.to_string(),
            };
            if !name.is_empty() {
                out.insert(name, (scope.to_string(), mixture));
            }
        }
    }
    out
}

/// A task or mixture, as far as its declaration says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Declared {
    /// Its name.
    pub name: String,
    /// Whether it is a mixture.
    pub is_mixture: bool,
    /// `file:line` of its first binding.
    pub place: String,
}

impl Declared {
    /// What it is, in a word.
    pub fn kind(&self) -> &'static str {
        if self.is_mixture { "mixture" } else { "task" }
    }
}

/// The tasks that a configuration's task files declare.
pub struct GinTasks {
    loaded: Loaded,
    registry: Registry,
    caches: Caches,
}

impl std::fmt::Debug for GinTasks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("GinTasks").field("names", &declared(&self.loaded.tasks).keys()).finish()
    }
}

impl GinTasks {
    /// The tasks of a loaded configuration.
    pub fn new(loaded: Loaded, registry: Registry) -> Self {
        Self { loaded, registry, caches: Caches::default() }
    }

    /// The same tasks, whose caches are looked for there.
    pub fn with_caches(self, caches: Caches) -> Self {
        Self { caches, ..self }
    }

    /// The names of the tasks, mixtures left out.
    pub fn task_names(&self) -> Vec<String> {
        let declared = declared(&self.loaded.tasks).into_iter();
        declared.filter(|(_, (_, is_mixture))| !is_mixture).map(|(name, _)| name).collect()
    }

    /// Every task and mixture, by name.
    pub fn declared(&self) -> Vec<Declared> {
        let declared = declared(&self.loaded.tasks).into_iter();
        let one = |(name, (scope, is_mixture)): (String, (String, bool))| {
            let place = self.place(&scope, is_mixture);
            Declared { name, is_mixture, place }
        };
        declared.map(one).collect()
    }

    /// `file:line` of the first binding in a task's scope.
    fn place(&self, scope: &str, is_mixture: bool) -> String {
        let schema = if is_mixture { Mixture::schema() } else { Task::schema() };
        let bindings = self.loaded.tasks.bindings.get(&(scope.to_string(), schema.name));
        let keys = bindings.into_iter().flat_map(|bound| bound.values().map(|bound| bound.key));
        let Some(first) = keys.min_by_key(|key| (key.file, key.start)) else {
            return "a declaration without bindings".to_string();
        };
        let sources = &self.loaded.sources;
        format!("{}:{}", sources.file(first.file).name, sources.line_column(first).0)
    }

    fn evaluate<T: Configurable>(&self, name: &str, scope: &str) -> Result<T, DataError> {
        let mut evaluator =
            Evaluator::new(&self.loaded.tasks, &self.registry).with_run_config(&self.loaded.config);
        let result = evaluator.evaluate_in::<T>(scope);
        let list = evaluator.into_diagnostics();
        match result {
            Ok(spec) if list.is_empty() => Ok(spec),
            _ => {
                let sources = self.loaded.sources.clone();
                let detail = Diagnostics { sources, list }.render(false);
                Err(DataError::Config(format!("task `{name}` cannot be used\n{detail}")))
            }
        }
    }
}

impl TaskProvider for GinTasks {
    fn caches(&self) -> Caches {
        self.caches.clone()
    }

    fn get(&self, name: &str) -> Result<TaskOrMixture, DataError> {
        let declared = declared(&self.loaded.tasks);
        match declared.get(name) {
            Some((scope, true)) => {
                Ok(TaskOrMixture::Mixture(Arc::new(self.evaluate(name, scope)?)))
            }
            Some((scope, false)) => Ok(TaskOrMixture::Task(Arc::new(self.evaluate(name, scope)?))),
            None => {
                let suggestion = did_you_mean(name, declared.keys().map(String::as_str));
                Err(DataError::UnknownTask { name: name.to_string(), suggestion })
            }
        }
    }
}
