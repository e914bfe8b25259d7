//! A configuration as text: gin's own `config_str` layout, which parses back to itself.
//!
//! A deviation from gin-config: infinity prints as `1e999`, which reads back, while gin drops it.

use super::config::Config;
use super::imports::ImportTable;
use super::pprint::pformat;
use super::reach::Reached;
use super::schema::{CONSTANT, Registry, Schema};
use super::spellings;
use super::value::{Value, ValueKind};

/// The approximate length of lines.
const WIDTH: usize = 80;

/// The indentation of a value on lines of its own.
const CONTINUATION: usize = 4;

/// The headings of printed sections.
const MACROS: &str = "# Macros:";
const PARAMETERS: &str = "# Parameters for ";

/// Whether a text is a printed configuration: after its imports comes the heading of a section.
pub fn is_printed(text: &str) -> bool {
    let is_import =
        |line: &&str| line.is_empty() || line.starts_with("import ") || line.starts_with("from ");
    let first = text.lines().find(|line| !is_import(line));
    first.is_some_and(|line| line == MACROS || line.starts_with(PARAMETERS))
}

/// Prints everything bound: imports, macros, then one section for each configurable and scope.
///
/// `registry` must be the one that `config` was loaded with.
pub fn config_str(config: &Config, registry: &Registry) -> String {
    let macros = config.macros.iter().map(|(path, bound)| (path.as_str(), &bound.value));
    let sections = config.bindings.iter().map(|((scope, name), arguments)| {
        let arguments = arguments.iter().map(|(name, bound)| (name.as_str(), &bound.value));
        Section::new(scope, name, arguments.collect(), registry)
    });
    printed(config, macros.collect(), sections.collect(), registry)
}

/// Prints the part of the configuration that the run reached, in the same layout: used values,
/// defaults included, and only the used macros.
pub fn operative_config_str(config: &Config, reached: &Reached, registry: &Registry) -> String {
    let macros = reached.macros.iter().map(|(path, value)| (path.as_str(), value));
    let sections = reached.sections.iter().map(|((scope, name), arguments)| {
        let arguments = arguments.iter().map(|(name, value)| (name.as_str(), value));
        Section::new(scope, name, arguments.collect(), registry)
    });
    printed(config, macros.collect(), sections.collect(), registry)
}

fn printed(
    config: &Config,
    macros: Vec<(&str, &Value)>,
    mut sections: Vec<Section<'_>>,
    registry: &Registry,
) -> String {
    sections.sort_by_cached_key(|section| section.sort_key(registry));
    if registry.without_methods {
        sections = spellings::in_order(sections, config);
    }
    let values = macros.iter().map(|(_, value)| *value);
    let arguments = sections.iter().flat_map(|s| s.arguments.iter().map(|(_, value)| *value));
    let references = references(values.chain(arguments), registry);
    let mut table = ImportTable::new(config, registry);
    for schema in sections.iter().map(|section| section.schema).chain(references) {
        table.require(schema);
    }
    let mut lines: Vec<String> = table.statements();
    if !lines.is_empty() {
        lines.push(String::new());
    }
    print_macros(macros, &table, &mut lines);
    for section in &sections {
        section.print(&table, &mut lines);
    }
    lines.join("\n")
}

fn print_macros(mut macros: Vec<(&str, &Value)>, table: &ImportTable<'_>, lines: &mut Vec<String>) {
    if macros.is_empty() {
        return;
    }
    lines.push(MACROS.to_string());
    lines.push(rule());
    macros.sort_by_cached_key(|(path, _)| reversed(&path.to_lowercase(), '/'));
    lines.extend(macros.iter().map(|(path, value)| binding(path, value, table)));
    lines.push(String::new());
}

/// The values bound to one configurable in one scope.
pub(super) struct Section<'a> {
    pub scope: &'a str,
    pub schema: &'static Schema,
    /// The arguments in the order of their names.
    pub arguments: Vec<(&'a str, &'a Value)>,
}

impl<'a> Section<'a> {
    fn new(
        scope: &'a str,
        name: &str,
        arguments: Vec<(&'a str, &'a Value)>,
        registry: &Registry,
    ) -> Self {
        let schema = registry.get(name).expect("bindings name what the registry holds");
        Self { scope, schema, arguments }
    }

    /// Returns the key for gin's order: by name, then module, then innermost scope.
    fn sort_key(&self, registry: &Registry) -> Vec<String> {
        let mut key = reversed(&self.schema.name.to_lowercase(), '.');
        if registry.is_method(self.schema) {
            // A method sorts under its class.
            let method = key.remove(0);
            key[0] = format!("{}.{method}", key[0]);
        }
        key.extend(reversed(&self.scope.to_lowercase(), '/'));
        key
    }

    fn print(&self, table: &ImportTable<'_>, lines: &mut Vec<String>) {
        let slash = if self.scope.is_empty() { "" } else { "/" };
        let name = format!("{}{slash}{}", self.scope, table.selector(self.schema));
        lines.push(format!("{PARAMETERS}{name}:"));
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
    value.for_each_mut(&mut |value| {
        if let ValueKind::Reference(reference) = &mut value.kind
            && let Some(selector) = table.reference(&reference.target)
        {
            reference.selector = selector;
        }
    });
    value
}

/// The configurables that values refer to; gin's own where one of them is a constant.
fn references<'a>(
    values: impl Iterator<Item = &'a Value>,
    registry: &Registry,
) -> Vec<&'static Schema> {
    let mut found = Vec::new();
    for value in values {
        value.for_each(&mut |value| match &value.kind {
            ValueKind::Reference(reference) => found.extend(registry.get(&reference.target)),
            ValueKind::Macro(used) if registry.constant(&used.path()).is_some() => {
                found.push(&CONSTANT);
            }
            _ => {}
        });
    }
    found
}
