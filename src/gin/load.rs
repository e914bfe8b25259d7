//! Loading: files and command-line bindings become one resolved [`Config`].
//!
//! Statements apply in the order of the text, an `include` where it stands. `import` of a module
//! that is not built in loads a task file, whose statements go into a table of their own.

use std::path::Path;

use super::ast::{Argument, Import, Include, MacroDefinition, Statement, StatementKind, Target};
use super::config::{Bound, Config};
use super::diagnostic::{Diagnostic, Diagnostics, Severity};
use super::parse::parse;
use super::resolve::{Imports, is_builtin, resolve};
use super::schema::Registry;
use super::source::{FileId, Source, SourceFile, SourceMap, Span};
use super::suggest::did_you_mean;
use super::value::{Value, ValueKind};

/// What to load, in this order: files, then bindings.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// Paths as given with `--gin_file`.
    pub files: Vec<String>,
    /// `(flag, statement)` of each binding given on the command line.
    pub bindings: Vec<(String, String)>,
    /// Folders that includes and task files are searched in, after the working directory.
    pub search_paths: Vec<String>,
}

/// A loaded configuration.
#[derive(Debug)]
pub struct Loaded {
    /// Every text read.
    pub sources: SourceMap,
    /// What the run is bound to.
    pub config: Config,
    /// What task files bind.
    pub tasks: Config,
    /// What is legal and probably not meant.
    pub warnings: Vec<Diagnostic>,
}

/// Folder of the library configs within a [`Source`].
pub const LIBRARY: &str = "<gimlet>/gin";
/// Folder of the library's task files within a [`Source`].
pub const TASK_LIBRARY: &str = "<gimlet>/tasks";

/// Loads and checks a configuration.
///
/// # Errors
/// Every mistake found in any of the texts.
pub fn load(
    request: &Request,
    source: &dyn Source,
    registry: &Registry,
) -> Result<Loaded, Diagnostics> {
    let mut loader = Loader::new(request, source, registry);
    for file in &request.files {
        loader.command_line_file(file);
    }
    for (flag, text) in &request.bindings {
        loader.command_line_binding(flag, text);
    }
    loader.finish()
}

/// Which table a text's statements go into.
#[derive(Clone, Copy, PartialEq)]
enum Table {
    Run,
    Tasks,
}

struct Loader<'a> {
    registry: &'a Registry,
    source: &'a dyn Source,
    search_paths: Vec<String>,
    sources: SourceMap,
    run: Config,
    tasks: Config,
    diagnostics: Vec<Diagnostic>,
    /// Files being read, outermost first.
    open: Vec<String>,
    /// Task files read already: importing one again does nothing.
    imported: Vec<String>,
    /// Imports of all files, through which command-line bindings may name things too.
    all_imports: Vec<Import>,
}

impl<'a> Loader<'a> {
    fn new(request: &Request, source: &'a dyn Source, registry: &'a Registry) -> Self {
        let mut search_paths = vec![String::new()];
        search_paths.extend(request.search_paths.iter().cloned());
        Self {
            registry,
            source,
            search_paths,
            sources: SourceMap::default(),
            run: Config::default(),
            tasks: Config::default(),
            diagnostics: Vec::new(),
            open: Vec::new(),
            imported: Vec::new(),
            all_imports: Vec::new(),
        }
    }

    fn command_line_file(&mut self, path: &str) {
        match self.find(path, LIBRARY, None) {
            Ok(Some((name, text))) => self.file(name, text, None, Table::Run),
            Ok(None) => {
                let missing = self.missing_file(path, LIBRARY);
                self.diagnostics.push(Diagnostic { place: None, ..missing });
            }
            Err(error) => self.diagnostics.push(Diagnostic::nowhere(error)),
        }
    }

    fn command_line_binding(&mut self, flag: &str, text: &str) {
        let file =
            SourceFile { name: flag.to_string(), text: text.to_string(), included_from: None };
        let file = self.sources.add(file);
        let imports = Imports { dynamic: false, list: self.all_imports.clone() };
        self.statements(file, text, imports, Table::Run);
    }

    fn file(&mut self, name: String, text: String, from: Option<Span>, table: Table) {
        let source = SourceFile { name: name.clone(), text: text.clone(), included_from: from };
        let file = self.sources.add(source);
        self.open.push(name);
        self.statements(file, &text, Imports::default(), table);
        self.open.pop();
    }

    fn statements(&mut self, file: FileId, text: &str, mut imports: Imports, table: Table) {
        let (statements, diagnostics) = parse(file, text);
        self.diagnostics.extend(diagnostics);
        for Statement { kind, .. } in statements {
            match kind {
                StatementKind::Binding(target, argument) => {
                    self.bind(&target, vec![argument], &imports, table);
                }
                StatementKind::Block(target, arguments) => {
                    self.bind(&target, arguments, &imports, table);
                }
                StatementKind::Macro(definition) => self.define(definition, &imports, table),
                StatementKind::Import(import) => self.import(import, &mut imports, table),
                StatementKind::Include(include) => self.include(&include, table),
            }
        }
    }

    fn table(&mut self, table: Table) -> &mut Config {
        match table {
            Table::Run => &mut self.run,
            Table::Tasks => &mut self.tasks,
        }
    }

    fn bind(&mut self, target: &Target, arguments: Vec<Argument>, imports: &Imports, table: Table) {
        if ["gin.macro", "macro"].contains(&target.selector.as_str()) {
            for Argument { span, value, .. } in arguments {
                let path = target.scope.join("/");
                self.define(MacroDefinition { path, span, value }, imports, table);
            }
            return;
        }
        let mentioned = &self.table(table).mentioned.clone();
        let schema = match resolve(&target.selector, target.span, imports, mentioned, self.registry)
        {
            Ok(schema) => schema,
            Err(diagnostic) => return self.diagnostics.push(diagnostic),
        };
        self.mention(schema.name, table);
        for Argument { name, span, mut value } in arguments {
            if schema.param(&name).is_none() {
                let message = format!("`{}` has no parameter `{name}`", schema.short_name());
                let help = did_you_mean(&name, schema.params.iter().map(|param| param.name));
                self.diagnostics.push(Diagnostic::error(span, message).help(help));
                continue;
            }
            self.resolve_references(&mut value, imports, table);
            let key = (target.scope.join("/"), schema.name);
            let bound = Bound { value, key: span };
            self.table(table).bindings.entry(key).or_default().insert(name, bound);
        }
    }

    fn define(&mut self, definition: MacroDefinition, imports: &Imports, table: Table) {
        let MacroDefinition { path, span, mut value } = definition;
        self.resolve_references(&mut value, imports, table);
        self.table(table).macros.insert(path, Bound { value, key: span });
    }

    fn mention(&mut self, name: &'static str, table: Table) {
        let mentioned = &mut self.table(table).mentioned;
        if !mentioned.contains(&name) {
            mentioned.push(name);
        }
    }

    /// Gives every reference in a value the full name of what it means.
    fn resolve_references(&mut self, value: &mut Value, imports: &Imports, table: Table) {
        match &mut value.kind {
            ValueKind::List(items) | ValueKind::Tuple(items) => {
                items.iter_mut().for_each(|item| self.resolve_references(item, imports, table));
            }
            ValueKind::Dict(entries) => {
                for (key, value) in entries {
                    self.resolve_references(key, imports, table);
                    self.resolve_references(value, imports, table);
                }
            }
            ValueKind::Reference(reference) => {
                let mentioned = &self.table(table).mentioned.clone();
                let selector = &reference.selector;
                match resolve(selector, value.span, imports, mentioned, self.registry) {
                    Ok(schema) => {
                        reference.target = schema.name.to_string();
                        self.mention(schema.name, table);
                    }
                    Err(diagnostic) => self.diagnostics.push(diagnostic),
                }
            }
            _ => {}
        }
    }

    fn import(&mut self, import: Import, imports: &mut Imports, table: Table) {
        if let Some(feature) = import.module.strip_prefix("__gin__.") {
            self.gin_feature(feature, &import, imports);
        } else if !is_builtin(&import.module, self.registry) && !self.task_module(&import) {
            return;
        }
        if !self.all_imports.contains(&import) {
            self.all_imports.push(import.clone());
        }
        let config = self.table(table);
        if !config.imports.iter().any(|known| known.module == import.module) {
            config.imports.push(import.clone());
        }
        imports.list.push(import);
    }

    fn gin_feature(&mut self, feature: &str, import: &Import, imports: &mut Imports) {
        if feature != "dynamic_registration" {
            let message = format!("`{feature}` is no feature of gin");
            let diagnostic = Diagnostic::error(import.span, message);
            self.diagnostics.push(diagnostic.help(did_you_mean(feature, ["dynamic_registration"])));
        } else if !imports.list.is_empty() {
            let message = "`dynamic_registration` must come before every other import of the file";
            self.diagnostics.push(Diagnostic::error(import.span, message));
        }
        imports.dynamic = true;
    }

    /// Loads the task file that stands for a Python module; `false` if there is none.
    fn task_module(&mut self, import: &Import) -> bool {
        let path = import.module.replace('.', "/");
        let gin = format!("{path}.gin");
        match self.find(&gin, TASK_LIBRARY, None) {
            Ok(Some((name, text))) => {
                if !self.imported.contains(&name) {
                    self.imported.push(name.clone());
                    self.file(name, text, Some(import.span), Table::Tasks);
                }
                return true;
            }
            Ok(None) => {
                let missing = self.missing_module(import, &path, &gin);
                self.diagnostics.push(missing);
            }
            Err(error) => self.diagnostics.push(Diagnostic::error(import.span, error)),
        }
        false
    }

    fn missing_module(&self, import: &Import, path: &str, gin: &str) -> Diagnostic {
        let module = &import.module;
        let python = format!("{path}.py");
        if let Ok(Some((found, _))) = self.find(&python, TASK_LIBRARY, None) {
            let message = format!("module `{module}` is Python, which Gimlet does not run");
            return Diagnostic::error(import.span, message)
                .label(format!("found {found}"))
                .help(format!("declare its tasks in {}", found.replace(".py", ".gin")))
                .help("a task is a block `name/seqio.Task:`; CONTRIBUTING.md shows one");
        }
        let roots = self.searched(TASK_LIBRARY);
        Diagnostic::error(import.span, format!("no module or task file is named `{module}`"))
            .help(format!("searched for {gin} in {roots}"))
            .help(did_you_mean(module, self.modules().iter().map(String::as_str)))
    }

    /// Built-in modules, for suggestions.
    fn modules(&self) -> Vec<String> {
        let parents = self.registry.names().filter_map(|name| name.rsplit_once('.'));
        parents.map(|(module, _)| module.to_string()).collect()
    }

    fn include(&mut self, include: &Include, table: Table) {
        let library = if table == Table::Run { LIBRARY } else { TASK_LIBRARY };
        let including = self.open.last().cloned();
        match self.find(&include.path, library, including.as_deref()) {
            Ok(Some((name, _))) if self.open.contains(&name) => {
                let message = format!("`{}` includes itself", include.path);
                let chain = self.open.join(" -> ");
                let diagnostic = Diagnostic::error(include.span, message);
                self.diagnostics.push(diagnostic.help(format!("the chain is {chain} -> {name}")));
            }
            Ok(Some((name, text))) => self.file(name, text, Some(include.span), table),
            Ok(None) => {
                let mut missing = self.missing_file(&include.path, library);
                missing.place = Some((include.span, "not found".to_string()));
                self.diagnostics.push(missing);
            }
            Err(error) => self.diagnostics.push(Diagnostic::error(include.span, error)),
        }
    }

    /// The first file of that path: absolute, or in the working directory, the search paths, the
    /// library, and last beside the file that includes it.
    fn find(
        &self,
        path: &str,
        library: &str,
        including: Option<&str>,
    ) -> Result<Option<(String, String)>, String> {
        let mut candidates = Vec::new();
        if Path::new(path).is_absolute() {
            candidates.push(path.to_string());
        } else {
            candidates.extend(self.search_paths.iter().map(|root| join(root, path)));
            candidates.push(join(library, path));
            if let Some((folder, _)) = including.and_then(|name| name.rsplit_once('/')) {
                candidates.push(join(folder, path));
            }
        }
        for name in candidates {
            match self.source.read(&name) {
                Ok(Some(text)) => return Ok(Some((name, text))),
                Ok(None) => {}
                Err(error) => return Err(format!("cannot read {name}: {error}")),
            }
        }
        Ok(None)
    }

    fn missing_file(&self, path: &str, library: &str) -> Diagnostic {
        let roots = self.searched(library);
        let mut diagnostic = Diagnostic::nowhere(format!("there is no gin file `{path}`"))
            .help(format!("searched in {roots}"));
        let roots = self.search_paths.iter().map(String::as_str).chain([library]);
        let similar: Vec<String> =
            roots.flat_map(|root| self.source.similar(&join(root, path))).collect();
        if !similar.is_empty() {
            diagnostic = diagnostic.help(format!("did you mean {}?", similar.join(" or ")));
        }
        diagnostic
    }

    fn searched(&self, library: &str) -> String {
        let mut roots: Vec<&str> = self.search_paths.iter().map(String::as_str).collect();
        roots[0] = "the working directory";
        roots.push(library);
        roots.join(", ")
    }

    fn finish(mut self) -> Result<Loaded, Diagnostics> {
        // What a text that failed would have bound is not missing: it would be noise to say so.
        if self.diagnostics.iter().all(|d| d.severity == Severity::Warning) {
            for config in [&self.run, &self.tasks] {
                self.diagnostics.extend(super::check::check(config));
            }
            let typed = |span: Span| self.sources.file(span.file).name.starts_with("--");
            self.diagnostics.extend(super::check::unused_macros(&self.run, typed));
        }
        let (errors, warnings): (Vec<_>, Vec<_>) =
            self.diagnostics.into_iter().partition(|d| d.severity == Severity::Error);
        if errors.is_empty() {
            let (config, tasks) = (self.run, self.tasks);
            return Ok(Loaded { sources: self.sources, config, tasks, warnings });
        }
        Err(Diagnostics {
            sources: self.sources,
            list: warnings.into_iter().chain(errors).collect(),
        })
    }
}

fn join(root: &str, path: &str) -> String {
    if root.is_empty() {
        path.to_string()
    } else {
        format!("{}/{path}", root.trim_end_matches('/'))
    }
}
