//! Values that name a module to import, as `utils.DatasetConfig.module` does. The import happens
//! after all statements, since a later one may bind another module.

use std::fmt;

use super::config::{Config, scope_components};
use super::configurable::FromGin;
use super::diagnostic::Reported;
use super::evaluate::Evaluator;
use super::schema::Registry;
use super::source::Span;
use super::value::{Value, ValueKind};

/// The name of a module: a value of a parameter of this type is imported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModuleName(
    /// The name as in an `import` statement: `t5.data.mixtures`.
    pub String,
);

impl FromGin for ModuleName {
    fn expected() -> String {
        String::expected()
    }

    fn from_gin(value: &Value, cx: &mut Evaluator<'_>) -> Result<Self, Reported> {
        String::from_gin(value, cx).map(Self)
    }

    fn to_gin(&self) -> Option<ValueKind> {
        self.0.to_gin()
    }

    fn names_module() -> bool {
        true
    }
}

impl fmt::Display for ModuleName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A text, and its place.
struct Placed(Option<(String, Span)>);

impl FromGin for Placed {
    fn expected() -> String {
        Option::<ModuleName>::expected()
    }

    fn from_gin(value: &Value, _: &mut Evaluator<'_>) -> Result<Self, Reported> {
        Ok(Self(match &value.kind {
            // As in T5X, an empty text counts as None.
            ValueKind::Str(text) if !text.is_empty() => Some((text.clone(), value.span)),
            _ => None,
        }))
    }
}

/// Returns every module that the bindings name, each once. Other errors in values are reported elsewhere.
pub(super) fn named_modules(config: &Config, registry: &Registry) -> Vec<(String, Span)> {
    let mut found: Vec<(String, Span)> = Vec::new();
    for ((scope, name), arguments) in &config.bindings {
        let Some(schema) = registry.get(name) else { continue };
        for (argument, bound) in arguments {
            if !schema.param(argument).is_some_and(|param| param.names_module) {
                continue;
            }
            let mut evaluator = Evaluator::new(config, registry).without_calls();
            let placed = evaluator.read_in::<Placed>(&scope_components(scope), &bound.value);
            if let Ok(Placed(Some((module, span)))) = placed
                && !found.iter().any(|(known, _)| *known == module)
            {
                found.push((module, span));
            }
        }
    }
    found
}
