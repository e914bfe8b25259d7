//! The reference page: every configurable of a registry with its parameters, as Markdown.

use std::collections::BTreeMap;

use super::schema::{Fallback, Param, Registry, Schema};

/// The text above the configurables.
const HEAD: &str = "# Configurables

Everything that a gin file can name. `gimlet gin reference` writes this page from the schemas of the
program; [gin.md](gin.md) teaches the language. A parameter without a default must be bound, or is
supplied by the caller.
";

/// Writes the page.
pub fn reference(registry: &Registry) -> String {
    let mut modules: BTreeMap<&str, Vec<&'static Schema>> = BTreeMap::new();
    for schema in registry.iter() {
        modules.entry(registry.module_of(schema)).or_default().push(schema);
    }
    let mut out = HEAD.to_string();
    out.push('\n');
    for module in modules.keys() {
        out.push_str(&format!("- [{module}](#{})\n", module.replace('.', "")));
    }
    for (module, schemas) in modules {
        out.push_str(&format!("\n## {module}\n"));
        schemas.into_iter().for_each(|schema| configurable(schema, &mut out));
    }
    out
}

fn configurable(schema: &Schema, out: &mut String) {
    out.push_str(&format!("\n### {}\n", schema.name));
    if !schema.aliases.is_empty() {
        out.push_str(&format!("\nAlso `{}`.\n", schema.aliases.join("`, `")));
    }
    if !schema.doc.is_empty() {
        out.push_str(&format!("\n{}\n", schema.doc));
    }
    let (without_effect, params): (Vec<_>, Vec<_>) =
        schema.params.iter().partition(|param| param.ignored);
    if !schema.params.is_empty() || schema.takes_any {
        out.push('\n');
    }
    params.into_iter().for_each(|param| out.push_str(&parameter(param)));
    if schema.takes_any {
        out.push_str("- any other parameter\n");
    }
    for Param { name, doc, .. } in without_effect {
        out.push_str(&format!("- `{name}` has no effect here: {doc}\n"));
    }
}

/// `` - `name`: type, default `value`. Doc ``
fn parameter(param: &Param) -> String {
    let default = match &param.default {
        Fallback::Required => "no default".to_string(),
        default => format!("default `{default}`"),
    };
    // The lines of a list item start below its text.
    let doc = param.doc.replace('\n', "\n  ");
    let line = format!("- `{}`: {}, {default}. {doc}", param.name, param.expected);
    format!("{}\n", line.trim_end())
}
