//! Checks of a whole configuration that need no evaluation: values still required, macros that
//! nothing defines or nothing uses.

use std::collections::BTreeSet;

use super::config::{Bound, Config};
use super::diagnostic::Diagnostic;
use super::source::Span;
use super::suggest::did_you_mean;
use super::value::{Value, ValueKind};

/// Everything that must be mended before the configuration can be evaluated.
pub fn check(config: &Config) -> Vec<Diagnostic> {
    let mut out = Vec::new();
    for (path, bound) in &config.macros {
        check_bound(path, bound, config, &mut out);
    }
    for ((scope, name), arguments) in &config.bindings {
        let short = name.rsplit('.').next().expect("split yields one part");
        let scope = if scope.is_empty() { String::new() } else { format!("{scope}/") };
        for (argument, bound) in arguments {
            check_bound(&format!("{scope}{short}.{argument}"), bound, config, &mut out);
        }
    }
    out.sort_by_key(|diagnostic| diagnostic.place.as_ref().map(|(span, _)| *span));
    out
}

/// Macros that the user has typed on the command line and that nothing uses: misspelled, most likely.
/// Files may well define more than a run needs.
pub fn unused_macros(config: &Config, is_typed: impl Fn(Span) -> bool) -> Vec<Diagnostic> {
    let mut used = BTreeSet::new();
    let arguments = config.bindings.values().flat_map(|arguments| arguments.values());
    for bound in arguments.chain(config.macros.values()) {
        bound.value.for_each(&mut |value| {
            if let ValueKind::Macro(macro_use) = &value.kind {
                used.insert(macro_use.path());
            }
        });
    }
    // A use in a scope may find the macro of an outer one.
    let is_used =
        |name: &str| used.iter().any(|path| path == name || path.ends_with(&format!("/{name}")));
    let unused = config.macros.iter().filter(|(name, bound)| is_typed(bound.key) && !is_used(name));
    unused
        .map(|(name, bound)| {
            let others = used.iter().map(String::as_str);
            Diagnostic::error(bound.key, format!("macro `{name}` is used nowhere"))
                .help(did_you_mean(name, others))
                .warning()
        })
        .collect()
}

fn check_bound(key: &str, bound: &Bound, config: &Config, out: &mut Vec<Diagnostic>) {
    if is_required(&bound.value) {
        let diagnostic = Diagnostic::error(bound.key, format!("`{key}` is required"))
            .label("no value was given")
            .help(format!("give it in a gin file, or with --gin.{key}=VALUE (a text: \"'text'\")"));
        out.push(diagnostic);
        return;
    }
    check_macros(&bound.value, config, out);
}

fn is_required(value: &Value) -> bool {
    matches!(&value.kind, ValueKind::Macro(used) if used.name == "gin.REQUIRED")
}

fn check_macros(value: &Value, config: &Config, out: &mut Vec<Diagnostic>) {
    value.for_each(&mut |value| {
        let ValueKind::Macro(used) = &value.kind else { return };
        let path = used.path();
        if used.name != "gin.REQUIRED" && config.macro_value(&path).is_none() {
            let message = format!("macro `{path}` is not defined");
            let diagnostic = Diagnostic::error(value.span, message)
                .help(did_you_mean(&path, config.macro_names()));
            out.push(diagnostic);
        }
    });
}
