//! Names: from a selector as written to its configurable.
//!
//! A file that begins with `from __gin__ import dynamic_registration` names things through its own
//! imports only; any other text (and the command line) by a dotted suffix that is unique, first
//! among the configurables that earlier statements mentioned, then in the whole registry.

use std::collections::{BTreeMap, BTreeSet};

use super::ast::{Import, ImportSource};
use super::diagnostic::Diagnostic;
use super::older::{Became, Older};
use super::schema::{Registry, Schema, gins_own};
use super::source::Span;
use super::suggest::{did_you_mean, nearest};

/// Modules of every program.
const OWN_MODULES: [&str; 2] = ["__main__", "__gin__"];

/// The imports of one text so far.
#[derive(Clone, Debug, Default)]
pub struct Imports {
    /// Whether names resolve through the imports alone.
    pub dynamic: bool,
    /// Imports by the name that they define, the last one last.
    modules: BTreeMap<String, Vec<Import>>,
    /// Names of imports whose modules were not found, which has been reported.
    failed: BTreeSet<String>,
}

impl Imports {
    /// Collects a list of imports.
    pub fn of<'a>(list: impl IntoIterator<Item = &'a Import>) -> Self {
        let mut imports = Self::default();
        list.into_iter().for_each(|import| imports.add(import));
        imports
    }

    /// Adds an import.
    pub fn add(&mut self, import: &Import) {
        let (name, _) = import.binding();
        self.failed.remove(name);
        self.modules.entry(name.to_string()).or_default().push(import.clone());
    }

    /// Returns the import and path by which a file with dynamic registration names a configurable.
    pub(super) fn source_of(&self, selector: &str) -> Option<ImportSource> {
        let (first, _) = selector.split_once('.').filter(|_| self.dynamic)?;
        Some(self.modules.get(first)?.last()?.source_of(selector))
    }

    /// Notes an import whose module was not found: uses of its name are not reported again.
    pub fn add_failed(&mut self, import: &Import) {
        self.failed.insert(import.binding().0.to_string());
    }

    /// Whether nothing was imported.
    pub fn is_empty(&self) -> bool {
        self.modules.is_empty()
    }
}

/// Modules that need no task file, even if the registry has none of their names.
pub(super) fn nameless_modules(registry: &Registry) -> impl Iterator<Item = &'static str> {
    OWN_MODULES.into_iter().chain(registry.modules.packages.iter().copied())
}

/// Whether a module is built in, which means that it or a module below it holds a configurable.
pub fn is_builtin(module: &str, registry: &Registry) -> bool {
    let below = format!("{module}.");
    nameless_modules(registry).any(|known| known == module)
        || registry.modules.is_absent(module)
        || registry.names().any(|name| name.starts_with(&below) || name == module)
}

/// The reason why a selector means no configurable.
pub enum Unresolved {
    /// No configurable has that name.
    Unknown(Diagnostic),
    /// Another project has that name, and it does not exist here.
    Absent(Diagnostic),
    /// Several configurables have that name.
    Ambiguous(Diagnostic),
    /// The name is one of an earlier version, and has no effect.
    Gone(&'static Older, Span),
    /// The name uses an import that has been reported.
    Reported,
}

impl Unresolved {
    /// The diagnostic for the user, unless it has been reported.
    pub fn into_diagnostic(self) -> Option<Diagnostic> {
        match self {
            Self::Unknown(diagnostic) | Self::Absent(diagnostic) | Self::Ambiguous(diagnostic) => {
                Some(diagnostic)
            }
            Self::Gone(older, span) => Some(Diagnostic::error(span, older.told())),
            Self::Reported => None,
        }
    }
}

/// The configurable that a selector means.
#[derive(Clone, Copy, Debug)]
pub struct Resolved {
    /// The configurable.
    pub schema: &'static Schema,
    /// The name of an earlier version that was written.
    pub older: Option<&'static Older>,
}

impl From<&'static Schema> for Resolved {
    fn from(schema: &'static Schema) -> Self {
        Self { schema, older: None }
    }
}

/// Finds the configurable that `selector` means.
pub fn resolve(
    selector: &str,
    span: Span,
    imports: &Imports,
    mentioned: &BTreeSet<&'static str>,
    registry: &Registry,
) -> Result<Resolved, Unresolved> {
    if imports.dynamic {
        return through_imports(selector, span, imports, registry);
    }
    if let Some(schema) = registry.get(selector) {
        return Ok(schema.into());
    }
    let known = |schema: &&Schema| schema.module.is_some() || mentioned.contains(schema.name);
    let earlier: Vec<_> = registry.with_suffix(selector).into_iter().filter(known).collect();
    let matching = match &earlier[..] {
        [] => registry.meant_by(selector),
        _ => registry.with_suffix(selector),
    };
    // In another project's files, names that gin-config finds ambiguous are refused as well.
    let reserved = registry.any_module.then(|| gins_own(selector)).flatten();
    match (&earlier[..], &matching[..]) {
        ([one], _) | ([], [one]) if reserved.is_none_or(|own| own == one.name) => Ok((*one).into()),
        ([], []) => match through_imports(selector, span, imports, registry) {
            Err(Unresolved::Unknown(_)) => unknown(selector, span, registry),
            other => other,
        },
        _ => {
            let names = matching.iter().map(|schema| schema.name).chain(reserved);
            let names: BTreeSet<_> = names.map(|name| format!("`{name}`")).collect();
            let names: Vec<_> = names.into_iter().collect();
            let message = format!("`{selector}` could be any of {}", names.join(", "));
            let diagnostic = Diagnostic::error(span, message);
            Err(Unresolved::Ambiguous(diagnostic.help("write more of its dotted name")))
        }
    }
}

fn through_imports(
    selector: &str,
    span: Span,
    imports: &Imports,
    registry: &Registry,
) -> Result<Resolved, Unresolved> {
    let (first, rest) = selector.split_once('.').unwrap_or((selector, ""));
    if let Some(own) = registry.get(selector).filter(|_| first == "gin") {
        return Ok(own.into());
    }
    if imports.failed.contains(first) {
        return Err(Unresolved::Reported);
    }
    let Some(modules) = imports.modules.get(first) else {
        return Err(Unresolved::Unknown(not_imported((first, rest), span, registry)));
    };
    // A later import of the same name replaces the earlier one, as in Python. On the command line the
    // imports of all files count.
    let replaced = if imports.dynamic { modules.len() - 1 } else { 0 };
    let newest_first = modules[replaced..].iter().rev();
    let full = |module| if rest.is_empty() { module } else { format!("{module}.{rest}") };
    let names: Vec<String> =
        newest_first.flat_map(|import| modules_of(import, registry)).map(full).collect();
    if let Some(schema) = names.iter().find_map(|name| registry.get(name)) {
        return Ok(schema.into());
    }
    match names.iter().find_map(|name| registry.modules.older(name)) {
        Some(older) => today(older, span, registry),
        None => Err(not_in_module((modules, rest), span, registry)),
    }
}

/// Reports a name that the last of the imported modules does not have.
fn not_in_module(
    (modules, rest): (&[Import], &str),
    span: Span,
    registry: &Registry,
) -> Unresolved {
    let (_, module) = modules.last().expect("a name was imported").binding();
    let inside = format!("{module}.");
    if let Some(remedy) = registry.modules.remedy(module, rest) {
        return absent(&format!("{inside}{rest}"), remedy, span);
    }
    let names = registry.names().filter_map(|name| name.strip_prefix(inside.as_str()));
    let message = format!("module `{module}` has no configurable `{rest}`");
    Unresolved::Unknown(Diagnostic::error(span, message).help(did_you_mean(rest, names)))
}

/// Returns the configurable that a name of an earlier version became.
fn today(older: &'static Older, span: Span, registry: &Registry) -> Result<Resolved, Unresolved> {
    match older.became {
        Became::Nothing(_) => Err(Unresolved::Gone(older, span)),
        Became::Name(name) => {
            let schema = registry.get(name).expect("a name became that of a configurable");
            Ok(Resolved { schema, older: Some(older) })
        }
    }
}

/// Returns the dotted names that may stand for the imported module: its own; for `__main__`, those
/// of every entry point; and in another project, where gin-config has registered configurables
/// under the alias, its own with the alias at its end.
pub(super) fn modules_of(import: &Import, registry: &Registry) -> Vec<String> {
    let (_, module) = import.binding();
    let mut modules = vec![module.to_string()];
    if module == "__main__" {
        modules.extend(registry.modules.entry_points.iter().map(|entry| entry.to_string()));
    }
    let alias = import.alias.as_ref().filter(|_| registry.any_module);
    modules.extend(alias.map(|alias| match module.rsplit_once('.') {
        Some((package, _)) => format!("{package}.{alias}"),
        None => alias.clone(),
    }));
    modules
}

/// Reports that a file imports nothing under a selector's first name, and proposes the module that has the rest.
fn not_imported((name, rest): (&str, &str), span: Span, registry: &Registry) -> Diagnostic {
    let diagnostic = Diagnostic::error(span, format!("`{name}` is not imported in this file"));
    let inner = format!(".{name}.");
    let below = |known: &'static str| {
        let at = known.find(&inner)?;
        Some((&known[..at], &known[at + inner.len()..]))
    };
    let mut known: Vec<(&str, &str)> = registry.iter().filter_map(|s| below(s.name)).collect();
    if !known.iter().all(|(package, _)| registry.yields(package)) {
        known.retain(|(package, _)| !registry.yields(package));
    }
    if known.is_empty() {
        known = registry.names().filter_map(below).collect();
    }
    let inside: Vec<&str> = known.iter().map(|(_, path)| *path).collect();
    let meant =
        inside.iter().copied().find(|path| *path == rest).or_else(|| nearest(rest, &inside));
    let mut packages: Vec<&str> = known
        .iter()
        .filter(|(_, path)| meant.is_none_or(|meant| *path == meant))
        .map(|(package, _)| *package)
        .collect();
    packages.dedup();
    let hint = if is_builtin(name, registry) && packages.is_empty() {
        format!("add `import {name}`")
    } else if packages.is_empty() {
        "with dynamic registration every name comes from an import".to_string()
    } else {
        let imports: Vec<String> =
            packages.iter().map(|package| format!("`from {package} import {name}`")).collect();
        format!("add {}", imports.join(" or "))
    };
    diagnostic.help(hint)
}

/// Finds a name without a module among those of earlier versions, or reports it.
fn unknown(selector: &str, span: Span, registry: &Registry) -> Result<Resolved, Unresolved> {
    if let Some(older) = registry.modules.older_of_short(selector) {
        return today(older, span, registry);
    }
    if let Some((full_name, remedy)) = registry.modules.remedy_of_short(selector) {
        return Err(absent(&full_name, remedy, span));
    }
    let last = selector.rsplit('.').next().expect("split yields one part");
    let short_names: Vec<&str> = registry.iter().map(Schema::short_name).collect();
    let message = format!("no configurable is named `{selector}`");
    let error = Diagnostic::error(span, message).help(did_you_mean(last, short_names));
    Err(Unresolved::Unknown(error))
}

fn absent(full_name: &str, remedy: &str, span: Span) -> Unresolved {
    let message = format!("`{full_name}` does not exist here");
    Unresolved::Absent(Diagnostic::error(span, message).help(remedy))
}
