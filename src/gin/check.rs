//! Checks of a whole configuration that need no evaluation: values still required, macros that
//! nothing defines.

use super::config::{Bound, Config};
use super::diagnostic::Diagnostic;
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
    match &value.kind {
        ValueKind::List(items) | ValueKind::Tuple(items) => {
            items.iter().for_each(|item| check_macros(item, config, out));
        }
        ValueKind::Dict(entries) => {
            for (key, value) in entries {
                check_macros(key, config, out);
                check_macros(value, config, out);
            }
        }
        ValueKind::Macro(used) if used.name != "gin.REQUIRED" => {
            let path = used.path();
            if config.macro_value(&path).is_none() {
                let message = format!("macro `{path}` is not defined");
                let diagnostic = Diagnostic::error(value.span, message)
                    .help(did_you_mean(&path, config.macro_names()));
                out.push(diagnostic);
            }
        }
        _ => {}
    }
}
