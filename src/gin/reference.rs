//! The reference: every configurable of a registry with its parameters, as Markdown, on a page for each subject, and an index of all names.

use std::collections::{BTreeMap, BTreeSet};

use super::schema::{Fallback, Param, Registry, Schema};

/// The text above the index.
const HEAD: &str = "# Configurables

Everything that a gin file can name. `gimlet gin reference` writes this page and those below from the
schemas of the program; [gin.md](gin.md) teaches the language. A parameter without a default must be
bound, or is supplied by the caller.

| Page | Configurables of |
| --- | --- |
";

/// The configurables of one subject.
#[derive(Clone, Copy, Debug)]
pub struct ReferencePage {
    /// Name of its file, without `.md`.
    pub name: &'static str,
    /// The title.
    pub title: &'static str,
    /// Rust modules that declare its configurables, with the modules inside; of several pages the longest one counts.
    /// An empty text takes those of all other modules.
    pub modules: &'static [&'static str],
}

/// The configurables of a page by the modules of their names.
type Modules = BTreeMap<&'static str, Vec<&'static Schema>>;

/// Writes the index and the pages that have configurables: texts by their paths from the index's folder.
pub fn reference(registry: &Registry, pages: &[ReferencePage]) -> BTreeMap<String, String> {
    let filled: Vec<(&ReferencePage, Modules)> = pages
        .iter()
        .map(|page| (page, modules(registry, |schema| page_of(schema, pages) == page.name)))
        .filter(|(_, modules)| !modules.is_empty())
        .collect();
    let mut out: BTreeMap<String, String> =
        filled.iter().map(|(page, modules)| (path(page.name), page_text(page, modules))).collect();
    let all = modules(registry, |_| true);
    out.insert("configurables.md".to_string(), index(&filled, &all, pages));
    out
}

fn path(page: &str) -> String {
    format!("configurables/{page}.md")
}

fn modules(registry: &Registry, is_wanted: impl Fn(&Schema) -> bool) -> Modules {
    let mut modules = Modules::new();
    for schema in registry.iter().filter(|schema| is_wanted(schema)) {
        modules.entry(registry.module_of(schema)).or_default().push(schema);
    }
    modules
}

/// Returns the name of the configurable's page.
fn page_of(schema: &Schema, pages: &[ReferencePage]) -> &'static str {
    let has = |module: &str| {
        let inside = schema.declared_in.strip_prefix(module);
        module.is_empty() || inside.is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
    };
    let longest = |page: &&ReferencePage| {
        page.modules.iter().filter(|module| has(module)).map(|module| module.len()).max()
    };
    pages.iter().max_by_key(longest).expect("there are pages").name
}

fn index(filled: &[(&ReferencePage, Modules)], all: &Modules, pages: &[ReferencePage]) -> String {
    let mut out = HEAD.to_string();
    for (page, modules) in filled {
        let packages: BTreeSet<&str> = modules.keys().map(|module| package(module)).collect();
        let packages = Vec::from_iter(packages).join(", ");
        out.push_str(&format!("| [{}]({}) | {packages} |\n", page.title, path(page.name)));
    }
    out.push_str("\n## Names\n\n");
    for (module, schemas) in all {
        let links: Vec<String> = schemas.iter().map(|schema| link(schema, module, pages)).collect();
        out.push_str(&format!("- **{module}**: {}\n", links.join(", ")));
    }
    out
}

/// Returns the first part of a module's name: `optax` of `optax.contrib`.
fn package(module: &str) -> &str {
    module.split('.').next().unwrap_or(module)
}

/// Returns a link to the configurable's heading. Its text is the name without the module.
fn link(schema: &Schema, module: &str, pages: &[ReferencePage]) -> String {
    let short = schema.name[module.len()..].trim_start_matches('.');
    let heading = schema.name.replace('.', "").to_lowercase();
    format!("[{short}]({}#{heading})", path(page_of(schema, pages)))
}

fn page_text(page: &ReferencePage, modules: &Modules) -> String {
    let mut out = format!("# {}\n\n[All configurables](../configurables.md)\n", page.title);
    for (module, schemas) in modules {
        out.push_str(&format!("\n## {module}\n"));
        schemas.iter().for_each(|schema| configurable(schema, &mut out));
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
