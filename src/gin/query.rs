//! Looks up the value bound to one key, as gin's `query_parameter` does.

use super::config::Bound;
use super::diagnostic::Diagnostic;
use super::load::Loaded;
use super::loader::is_macro;
use super::resolve::{Imports, resolve};
use super::schema::{Registry, Schema};
use super::source::Span;
use super::suggest::did_you_mean;
use super::value::ValueKind;

/// The reason why a key has no value, in words.
#[derive(Debug, PartialEq, Eq)]
pub struct Failed(
    /// The reason, with the nearest names.
    pub String,
);

/// Returns the configurable that a selector means in the loaded files.
///
/// # Errors
/// A selector that means no configurable, or several.
pub fn configurable(
    selector: &str,
    loaded: &Loaded,
    registry: &Registry,
) -> Result<&'static Schema, Diagnostic> {
    let imports = Imports::of(loaded.config.imports.values());
    let found = resolve(selector, Span::NOWHERE, &imports, &loaded.config.mentioned, registry);
    found.map(|found| found.schema).map_err(|error| {
        error.into_diagnostic().expect("imports of a loaded configuration did not fail")
    })
}

/// Returns the value of `scope/selector.argument` in that scope alone, of `%MACRO`, or of a
/// constant.
///
/// # Errors
/// A key that names nothing, or that has no binding.
pub fn query(key: &str, loaded: &Loaded, registry: &Registry) -> Result<ValueKind, Failed> {
    bound(key, loaded, registry).map(|bound| bound.value.kind.clone()).or_else(|failed| {
        match registry.matching_constants(key)[..] {
            [constant] => match registry.constant(constant).flatten() {
                Some(value) => Ok(value.clone()),
                None => Err(Failed(format!("the value of constant `{constant}` is not known"))),
            },
            _ => Err(failed),
        }
    })
}

/// Does the same as [`query`], with the replaced values and the place of the binding; no constants.
///
/// # Errors
/// As [`query`].
pub fn bound<'a>(key: &str, loaded: &'a Loaded, registry: &Registry) -> Result<&'a Bound, Failed> {
    let config = &loaded.config;
    if let Some(path) = key.strip_prefix('%') {
        return config.macros.get(path).ok_or_else(|| {
            let help = did_you_mean(path, config.macro_names());
            Failed(format!("macro `{path}` is not defined: {help}"))
        });
    }
    let (scope, name) = key.rsplit_once('/').unwrap_or(("", key));
    let Some((selector, argument)) = name.rsplit_once('.') else {
        let hint = match config.macros.contains_key(key) {
            true => format!("a macro is asked for as `%{key}`"),
            false => "a key is `scope/selector.argument` or `%MACRO`".to_string(),
        };
        return Err(Failed(format!("`{key}` names no argument: {hint}")));
    };
    if is_macro(selector) && argument == "value" {
        return config.macros.get(scope).ok_or_else(|| {
            let help = did_you_mean(scope, config.macro_names());
            Failed(format!("macro `{scope}` is not defined: {help}"))
        });
    }
    let schema = configurable(selector, loaded, registry).map_err(|diagnostic| {
        Failed([vec![diagnostic.message], diagnostic.help].concat().join(": "))
    })?;
    let place = if scope.is_empty() { String::new() } else { format!(" in scope `{scope}`") };
    let Some(arguments) = config.bindings.get(&(scope.to_string(), schema.name)) else {
        return Err(Failed(format!("`{selector}` has no bound parameters{place}")));
    };
    arguments.get(argument).ok_or_else(|| {
        let help = did_you_mean(argument, arguments.keys().map(String::as_str));
        Failed(format!("`{selector}` has no value bound for `{argument}`{place}: {help}"))
    })
}
