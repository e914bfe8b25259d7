//! Tasks and mixtures that blocks derive from others: their declarations, and their evaluation by
//! name.

use crate::data::{
    DataError, Derivation, TaskOrMixture, TaskProvider, WithMissingTaskSplitsRemoved, WithNewVocab,
    WithTruncatedData, part_name, subtasks,
};
use crate::gin::{Configurable, Evaluator, Loaded, Registry, Schema};

use super::declarations::{Origin, checked};

/// The helper that a block names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Helper {
    NewVocab,
    TruncatedData,
    MissingTaskSplitsRemoved,
}

/// A block that derives a task or mixture from another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Derived {
    pub helper: Helper,
    pub origin: Origin,
}

const HELPERS: [Helper; 3] =
    [Helper::NewVocab, Helper::TruncatedData, Helper::MissingTaskSplitsRemoved];

impl Helper {
    pub(super) fn schema(self) -> &'static Schema {
        match self {
            Self::NewVocab => WithNewVocab::schema(),
            Self::TruncatedData => WithTruncatedData::schema(),
            Self::MissingTaskSplitsRemoved => WithMissingTaskSplitsRemoved::schema(),
        }
    }

    /// Whether the tasks of a new mixture are new ones too, `MIXTURE.TASK`.
    pub(super) fn renames_tasks(self) -> bool {
        self != Self::MissingTaskSplitsRemoved
    }
}

impl Derived {
    /// Evaluates the block in its scope.
    pub(super) fn evaluate(
        self,
        loaded: &Loaded,
        registry: &Registry,
        scope: &str,
    ) -> Result<Derivation, String> {
        let mut cx =
            Evaluator::new(self.origin.table(loaded), registry).with_run_config(&loaded.config);
        let derivation = match self.helper {
            Helper::NewVocab => cx.evaluate_in(scope).map(Derivation::NewVocab),
            Helper::TruncatedData => cx.evaluate_in(scope).map(Derivation::TruncatedData),
            Helper::MissingTaskSplitsRemoved => {
                cx.evaluate_in(scope).map(Derivation::MissingTaskSplitsRemoved)
            }
        };
        checked(derivation, cx, loaded)
    }

    /// Returns the new name that the block gives, if any.
    fn name(
        self,
        loaded: &Loaded,
        registry: &Registry,
        scope: &str,
    ) -> Result<Option<String>, String> {
        let mut cx =
            Evaluator::new(self.origin.table(loaded), registry).with_run_config(&loaded.config);
        let none = Some((|| None) as fn() -> Option<String>);
        let name = match self.helper {
            Helper::NewVocab => {
                cx.argument_in::<WithNewVocab, _>(scope, "new_mixture_or_task_name", none)
            }
            Helper::TruncatedData => {
                cx.argument_in::<WithTruncatedData, _>(scope, "new_mixture_or_task_name", none)
            }
            Helper::MissingTaskSplitsRemoved => {
                cx.argument_in::<WithMissingTaskSplitsRemoved, _>(scope, "new_mixture_name", none)
            }
        };
        let name: Option<String> = checked(name, cx, loaded)?;
        Ok(name.or_else(|| (!scope.is_empty()).then(|| scope.to_string())))
    }
}

/// Returns the new names with scope and block, or the error in the block.
pub(super) fn derived(
    loaded: &Loaded,
    registry: &Registry,
) -> Vec<Result<(String, String, Derived), String>> {
    let mut out = Vec::new();
    for origin in Origin::ALL {
        for helper in HELPERS {
            let block = Derived { helper, origin };
            for scope in origin.table(loaded).scopes_of(helper.schema().name) {
                match block.name(loaded, registry, scope) {
                    // Bindings outside of any scope, without a name, are shared by blocks.
                    Ok(None) => {}
                    Ok(Some(name)) => out.push(Ok((name, scope.to_string(), block))),
                    Err(detail) => out.push(Err(format!(
                        "`{}` in scope `{scope}` cannot be used\n{detail}",
                        helper.schema().short_name()
                    ))),
                }
            }
        }
    }
    out
}

/// Returns the task or mixture `wanted`: the new one itself, `new`, or one of a new mixture's
/// tasks, `new.TASK`, at any depth.
pub(super) fn part_of(
    derivation: &Derivation,
    original: &str,
    new: &str,
    wanted: &str,
    tasks: &dyn TaskProvider,
) -> Result<Option<TaskOrMixture>, DataError> {
    let found = tasks.get(original)?;
    if new == wanted {
        return derivation.apply(&found, new, tasks).map(Some);
    }
    let TaskOrMixture::Mixture(mixture) = found else { return Ok(None) };
    // A mixture that contains itself would have infinitely many parts.
    subtasks(original, tasks)?;
    for entry in &mixture.tasks.0 {
        let part = part_name(new, &entry.name);
        let is_within = wanted.strip_prefix(&part).is_some_and(|rest| rest.starts_with('.'));
        if (part == wanted || is_within)
            && let Some(found) = part_of(derivation, &entry.name, &part, wanted, tasks)?
        {
            return Ok(Some(found));
        }
    }
    Ok(None)
}
