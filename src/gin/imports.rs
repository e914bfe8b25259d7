//! The imports of a printed configuration, and how its text names configurables.
//!
//! Without dynamic registration that is the shortest suffix of the full name that means one thing.
//! With it, it is `imported name.path inside it`, and imports are added for what no file imported.

use std::collections::BTreeSet;

use super::ast::Import;
use super::resolve::entry_modules;
use super::schema::{Registry, Schema};
use super::source::{FileId, Span};

/// The module that switches dynamic registration on.
const DYNAMIC_REGISTRATION: &str = "__gin__.dynamic_registration";

/// Imports under names of their own.
pub(super) struct ImportTable<'a> {
    registry: &'a Registry,
    imports: Vec<Import>,
    names: BTreeSet<String>,
    modules: BTreeSet<String>,
    dynamic: bool,
}

impl<'a> ImportTable<'a> {
    /// The imports of the loaded files; where one module is imported twice, `from` wins.
    pub fn new<'i>(imports: impl Iterator<Item = &'i Import>, registry: &'a Registry) -> Self {
        let mut imports: Vec<&Import> = imports.collect();
        let dynamic = imports.iter().any(|import| import.module == DYNAMIC_REGISTRATION);
        let mut table = Self {
            registry,
            imports: Vec::new(),
            names: BTreeSet::new(),
            modules: BTreeSet::new(),
            dynamic,
        };
        imports.sort_by_key(|import| (&import.module, !import.from));
        imports.into_iter().for_each(|import| table.add(import.clone()));
        table
    }

    /// Makes sure that the configurable can be named.
    pub fn require(&mut self, schema: &'static Schema) {
        if !self.dynamic || is_gins_own(schema.name) || self.through(schema).is_some() {
            return;
        }
        let module = self.registry.module_of(schema);
        let span = Span { file: FileId(0), start: 0, end: 0 };
        let from = module.contains('.');
        self.add(Import { module: module.to_string(), from, alias: None, span });
    }

    /// The import statements, sorted; dynamic registration must come first.
    pub fn statements(&self) -> Vec<String> {
        let mut imports: Vec<&Import> = self.imports.iter().collect();
        imports.sort_by_key(|import| (import.module != DYNAMIC_REGISTRATION, &import.module));
        imports.into_iter().map(Import::to_string).collect()
    }

    /// How keys name the configurable.
    pub fn selector(&self, schema: &'static Schema) -> String {
        if !self.dynamic || is_gins_own(schema.name) {
            return self.registry.minimal_selector(schema).to_string();
        }
        let (import, path) = self.through(schema).expect("`require` was called for it");
        let (name, _) = import.binding();
        let name = if import.from || import.alias.is_some() { name } else { &import.module };
        format!("{name}.{path}")
    }

    /// How a reference to the configurable of that full name is printed; `None` as written.
    pub fn reference(&self, target: &str) -> Option<String> {
        let schema = self.registry.get(target).filter(|_| self.dynamic)?;
        Some(self.selector(schema))
    }

    /// The import with the longest path to the configurable, and the rest of the path.
    fn through(&self, schema: &'static Schema) -> Option<(&Import, &'static str)> {
        let paths = |import: &Import| -> Option<(usize, &'static str)> {
            let modules = entry_modules(&import.module);
            let path = |name: &'static str| {
                modules.iter().find_map(|module| {
                    let path = name.strip_prefix(module)?.strip_prefix('.')?;
                    Some((module.len(), path))
                })
            };
            schema.names().find_map(path)
        };
        let found = self.imports.iter().filter_map(|import| Some((import, paths(import)?)));
        found.max_by_key(|(_, (length, _))| *length).map(|(import, (_, path))| (import, path))
    }

    /// Adds an import under a name that no other has, each module once.
    fn add(&mut self, mut import: Import) {
        if !self.modules.insert(import.module.clone()) {
            return;
        }
        let (name, _) = import.binding();
        if self.names.contains(name) {
            let alias = (2..).map(|i| format!("{name}{i}")).find(|name| !self.names.contains(name));
            import.alias = alias;
        }
        self.names.insert(import.binding().0.to_string());
        self.imports.push(import);
    }
}

/// `gin.singleton` and its like need no import.
fn is_gins_own(name: &str) -> bool {
    name.starts_with("gin.")
}
