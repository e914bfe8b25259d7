//! The imports of a printed configuration, and how its text names configurables.
//!
//! Without dynamic registration a text uses the shortest unique suffix of the full name.
//! With it, as in gin-config (`ImportManager`), a text uses the import through which a file first
//! named the configurable and the path inside; for other configurables, the module of their own.

use std::collections::{BTreeMap, BTreeSet};

use super::ast::{Import, ImportSource};
use super::config::Config;
use super::schema::{Registry, Schema};
use super::source::Span;

/// The module that switches dynamic registration on.
const DYNAMIC_REGISTRATION: &str = "__gin__.dynamic_registration";

/// Imports under names of their own.
pub(super) struct ImportTable<'a> {
    config: &'a Config,
    registry: &'a Registry,
    imports: Vec<Import>,
    names: BTreeSet<String>,
    /// How the text names each imported module.
    modules: BTreeMap<String, String>,
    dynamic: bool,
}

impl<'a> ImportTable<'a> {
    /// The imports of the loaded files; where one module is imported twice, `from` wins.
    pub fn new(config: &'a Config, registry: &'a Registry) -> Self {
        let mut imports: Vec<&Import> = config.imports.values().collect();
        let dynamic = imports.iter().any(|import| import.module == DYNAMIC_REGISTRATION);
        let mut table = Self {
            config,
            registry,
            imports: Vec::new(),
            names: BTreeSet::new(),
            modules: BTreeMap::new(),
            dynamic,
        };
        imports.sort_by_key(|import| (&import.module, !import.from));
        imports.into_iter().for_each(|import| table.add(import.clone()));
        table
    }

    /// Makes sure that the configurable can be named.
    pub fn require(&mut self, schema: &'static Schema) {
        if self.dynamic {
            self.add(self.source(schema).import);
        }
    }

    /// Returns the import statements, sorted; dynamic registration must come first.
    pub fn statements(&self) -> Vec<String> {
        let mut imports: Vec<&Import> = self.imports.iter().collect();
        imports.sort_by_key(|import| (import.module != DYNAMIC_REGISTRATION, &import.module));
        imports.into_iter().map(Import::to_string).collect()
    }

    /// Returns the name of the configurable in keys.
    pub fn selector(&self, schema: &'static Schema) -> String {
        if !self.dynamic {
            return self.registry.minimal_selector(schema).to_string();
        }
        let ImportSource { import, path } = self.source(schema);
        let name = self.modules.get(&import.module).expect("`require` was called for it");
        format!("{name}.{path}")
    }

    /// Returns the printed name of a referenced configurable; `None` to print it as written.
    pub fn reference(&self, target: &str) -> Option<String> {
        let schema = self.registry.get(target).filter(|_| self.dynamic)?;
        Some(self.selector(schema))
    }

    /// The import that gives the configurable, and its path inside.
    fn source(&self, schema: &'static Schema) -> ImportSource {
        let named = self.config.sources.get(schema.name).filter(|_| schema.module.is_none());
        named.cloned().unwrap_or_else(|| {
            let module = schema.module.unwrap_or_else(|| self.registry.module_of(schema));
            let inside = |name: &'static str| name.strip_prefix(module)?.strip_prefix('.');
            let path = schema.names().find_map(inside).unwrap_or(schema.short_name()).to_string();
            let (module, from) = (module.to_string(), module.contains('.'));
            ImportSource { import: Import { module, from, alias: None, span: Span::NOWHERE }, path }
        })
    }

    /// Adds an import under a name that no other import has, each module once.
    fn add(&mut self, mut import: Import) {
        if self.modules.contains_key(&import.module) {
            return;
        }
        let (name, _) = import.binding();
        if self.names.contains(name) {
            let alias = (2..).map(|i| format!("{name}{i}")).find(|name| !self.names.contains(name));
            import.alias = alias;
        }
        let name = import.binding().0.to_string();
        let own = import.from || import.alias.is_some();
        let named = if own { name.clone() } else { import.module.clone() };
        self.modules.insert(import.module.clone(), named);
        self.names.insert(name);
        self.imports.push(import);
    }
}
