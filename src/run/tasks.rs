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
