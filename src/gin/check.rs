//! Checks of a whole configuration that need no evaluation: values still required, macros that
//! nothing defines, values of the wrong type, and cycles.

use std::collections::BTreeSet;

use super::config::{Bound, Config};
use super::diagnostic::{Diagnostic, Missing};
use super::evaluate::Evaluator;
use super::reach::reach_all;
use super::schema::{REQUIRED, Registry};
use super::suggest::did_you_mean;
use super::value::{Value, ValueKind};

/// Reports cycles and values of the wrong type, which no further text can fix.
pub(super) fn inconsistent(config: &Config, registry: &Registry) -> Vec<Diagnostic> {
    let cycles = reach_all(config, registry).cycles;
    in_order(if cycles.is_empty() { wrong_types(config, registry) } else { cycles })
}

/// Reports the values and macros without which the configuration cannot be evaluated.
pub(super) fn incomplete(config: &Config, registry: &Registry) -> Vec<Diagnostic> {
    let mut out = Vec::new();
    let fields = row_fields(config, registry);
    let known = Known { config, registry, fields: &fields };
    for (path, bound) in &config.macros {
        check_bound(path, bound, &known, &mut out);
    }
    for ((scope, name), arguments) in &config.bindings {
        let short = name.rsplit('.').next().expect("split yields one part");
        let scope = if scope.is_empty() { String::new() } else { format!("{scope}/") };
        for (argument, bound) in arguments {
            let key = format!("{scope}{short}.{argument}");
            check_bound(&key, bound, &known, &mut out);
        }
    }
    in_order(out)
}

/// Sorts the diagnostics in the order of the texts and keeps each of them once.
fn in_order(mut diagnostics: Vec<Diagnostic>) -> Vec<Diagnostic> {
    diagnostics.sort_by_key(|diagnostic| diagnostic.place.as_ref().map(|(span, _)| *span));
    let mut out: Vec<Diagnostic> = Vec::new();
    for diagnostic in diagnostics {
        let is_same = |known: &&mut Diagnostic| {
            (&known.place, &known.message) == (&diagnostic.place, &diagnostic.message)
        };
        match out.last_mut().filter(is_same) {
            Some(known) => known.wrong_for.extend(diagnostic.wrong_for),
            None => out.push(diagnostic),
        }
    }
    out
}

/// Reports values that their parameters do not accept.
fn wrong_types(config: &Config, registry: &Registry) -> Vec<Diagnostic> {
    let mut evaluator = Evaluator::new(config, registry).without_calls();
    let mut out = Vec::new();
    for bound in config.macros.values() {
        evaluator.check_computed(&bound.value);
    }
    out.append(&mut evaluator.take_diagnostics());
    for ((scope, name), arguments) in &config.bindings {
        let schema = registry.get(name).expect("bindings name what the registry holds");
        for (argument, bound) in arguments {
            evaluator.check_type(scope, schema, argument, &bound.value);
            let key = (scope.clone(), *name, argument.clone());
            let wrong = evaluator.take_diagnostics().into_iter();
            out.extend(wrong.map(|wrong| Diagnostic { wrong_for: vec![key.clone()], ..wrong }));
        }
    }
    out
}

/// The possible origins of macros: the configuration, the registry and the fields of rows.
struct Known<'a> {
    config: &'a Config,
    registry: &'a Registry,
    fields: &'a BTreeSet<String>,
}

impl Known<'_> {
    fn has_macro(&self, path: &str) -> bool {
        !self.registry.matching_constants(path).is_empty()
            || self.config.macro_value(path).is_some()
            || self.fields.contains(path)
    }
}

/// The names of the fields of all rows, which are macros while a row is evaluated.
fn row_fields(config: &Config, registry: &Registry) -> BTreeSet<String> {
    let mut fields = BTreeSet::new();
    for ((_, name), arguments) in &config.bindings {
        let schema = registry.get(name).expect("bindings name what the registry holds");
        for (argument, bound) in arguments {
            if schema.param(argument).is_some_and(|param| param.declares_macros) {
                add_keys(&bound.value, config, MAX_LISTS, &mut fields);
            }
        }
    }
    fields
}

/// The greatest depth of tables within lists and macros; cyclic ones are refused later.
const MAX_LISTS: usize = 8;

fn add_keys(value: &Value, config: &Config, depth: usize, fields: &mut BTreeSet<String>) {
    let Some(depth) = depth.checked_sub(1) else { return };
    match &value.kind {
        ValueKind::List(items) | ValueKind::Tuple(items) => {
            items.iter().for_each(|item| add_keys(item, config, depth, fields));
        }
        ValueKind::Macro(used) => {
            let table = config.macro_value(&used.path()).into_iter();
            table.for_each(|table| add_keys(table, config, depth, fields));
        }
        ValueKind::Dict(entries) => fields.extend(entries.iter().filter_map(|(key, _)| {
            if let ValueKind::Str(key) = &key.kind { Some(key.clone()) } else { None }
        })),
        _ => {}
    }
}

fn check_bound(key: &str, bound: &Bound, known: &Known<'_>, out: &mut Vec<Diagnostic>) {
    if is_required(&bound.value) {
        let diagnostic = Diagnostic::error(bound.key, format!("`{key}` is required"))
            .lacks(Missing::Value)
            .label("no value was given")
            .help(format!("give it in a gin file, or with --gin.{key}=VALUE (a text: \"'text'\")"));
        out.push(diagnostic);
        return;
    }
    bound.value.for_each(&mut |value| {
        let ValueKind::Macro(used) = &value.kind else { return };
        let path = used.path();
        if !known.has_macro(&path) {
            let message = format!("macro `{path}` is not defined");
            let diagnostic = Diagnostic::error(value.span, message)
                .lacks(Missing::Macro)
                .help(did_you_mean(&path, known.config.macro_names()));
            out.push(diagnostic);
        }
    });
}

pub(super) fn is_required(value: &Value) -> bool {
    matches!(&value.kind, ValueKind::Macro(used) if used.name == REQUIRED)
}
