//! A configuration as text: gin's own `config_str` layout, which parses back to itself.
//!
//! Deviations from gin-config: infinity prints as `1e999`, which reads back, where gin drops it.

use super::config::{Bound, Config};
use super::imports::ImportTable;
use super::pprint::pformat;
use super::schema::{Registry, Schema};
use super::value::{Value, ValueKind};

/// How long lines are, about.
const WIDTH: usize = 80;

/// How far a value is indented that goes onto lines of its own.
const CONTINUATION: usize = 4;

/// Everything bound: imports, macros, then one section for each configurable and scope.
///
/// `registry` must be the one that `config` was loaded with.
pub fn config_str(config: &Config, registry: &Registry) -> String {
    let sections = sections(config, registry);
    let references = references(config, registry);
    let mut table = ImportTable::new(&config.imports, registry);
    for schema in sections.iter().map(|section| section.schema).chain(references) {
        table.require(schema);
    }
    let mut lines: Vec<String> = table.statements();
    if !lines.is_empty() {
        lines.push(String::new());
    }
    macros(config, &table, &mut lines);
    for section in &sections {
        section.print(&table, &mut lines);
    }
    lines.join("\n")
}

fn macros(config: &Config, table: &ImportTable<'_>, lines: &mut Vec<String>) {
    if config.macros.is_empty() {
        return;
    }
    lines.push("# Macros:".to_string());
    lines.push(rule());
    let mut macros: Vec<(&String, &Bound)> = config.macros.iter().collect();
    macros.sort_by_cached_key(|(path, _)| reversed(&path.to_lowercase(), '/'));
    lines.extend(macros.iter().map(|(path, bound)| binding(path, &bound.value, table)));
    lines.push(String::new());
}

/// What is bound to one configurable in one scope.
struct Section<'a> {
    scope: &'a str,
    schema: &'static Schema,
    /// In the order of their names.
    arguments: Vec<(&'a str, &'a Value)>,
}

impl Section<'_> {
    fn print(&self, table: &ImportTable<'_>, lines: &mut Vec<String>) {
        let slash = if self.scope.is_empty() { "" } else { "/" };
        let name = format!("{}{slash}{}", self.scope, table.selector(self.schema));
        lines.push(format!("# Parameters for {name}:"));
        lines.push(rule());
        for (argument, value) in &self.arguments {
            lines.push(binding(&format!("{name}.{argument}"), value, table));
        }
        if self.arguments.is_empty() {
            lines.push("# None.".to_string());
        }
        lines.push(String::new());
    }
}

/// Sorted by name, then module, then innermost scope, as gin does.
fn sections<'a>(config: &'a Config, registry: &Registry) -> Vec<Section<'a>> {
    let mut sections: Vec<Section<'_>> = config
        .bindings
        .iter()
        .map(|((scope, name), arguments)| {
            let schema = registry.get(name).expect("bindings name what the registry holds");
            let arguments = arguments.iter().map(|(name, bound)| (name.as_str(), &bound.value));
            Section { scope, schema, arguments: arguments.collect() }
        })
        .collect();
    sections.sort_by_cached_key(|section| {
        let mut key = reversed(&section.schema.name.to_lowercase(), '.');
        if registry.is_method(section.schema) {
            // A method sorts under its class.
            let method = key.remove(0);
            key[0] = format!("{}.{method}", key[0]);
        }
        key.extend(reversed(&section.scope.to_lowercase(), '/'));
        key
    });
    sections
}

fn reversed(path: &str, separator: char) -> Vec<String> {
    path.rsplit(separator).map(str::to_string).collect()
}

fn rule() -> String {
    format!("# {}", "=".repeat(WIDTH - 2))
}

fn binding(key: &str, value: &Value, table: &ImportTable<'_>) -> String {
    let text = pformat(&with_names(value, table), WIDTH - CONTINUATION);
    let one_line = !text.contains('\n');
    if one_line && key.chars().count() + text.chars().count() <= WIDTH {
        return format!("{key} = {text}");
    }
    let indent = " ".repeat(CONTINUATION);
    format!("{key} = \\\n{indent}{}", text.replace('\n', &format!("\n{indent}")))
}

/// The value with every reference named as the printed imports name it.
fn with_names(value: &Value, table: &ImportTable<'_>) -> Value {
    let mut value = value.clone();
    for_each_value(&mut value, &mut |value| {
        if let ValueKind::Reference(reference) = &mut value.kind
            && let Some(selector) = table.reference(&reference.target)
        {
            reference.selector = selector;
        }
    });
    value
}

/// The configurables that values refer to.
fn references(config: &Config, registry: &Registry) -> Vec<&'static Schema> {
    let arguments = config.bindings.values().flat_map(|arguments| arguments.values());
    let mut found = Vec::new();
    for bound in arguments.chain(config.macros.values()) {
        for_each_value(&mut bound.value.clone(), &mut |value| {
            if let ValueKind::Reference(reference) = &value.kind {
                found.extend(registry.get(&reference.target));
            }
        });
    }
    found
}

fn for_each_value(value: &mut Value, visit: &mut impl FnMut(&mut Value)) {
    visit(value);
    match &mut value.kind {
        ValueKind::List(items) | ValueKind::Tuple(items) => {
            items.iter_mut().for_each(|item| for_each_value(item, visit));
        }
        ValueKind::Dict(entries) => {
            for (key, value) in entries {
                for_each_value(key, visit);
                for_each_value(value, visit);
            }
        }
        _ => {}
    }
}
