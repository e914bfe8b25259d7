//! Loading: files and command-line bindings become one resolved [`Config`].
//!
//! Statements apply in the order of the text, an `include` at its place. An `import` of a module
//! that is not built in loads a task file, whose statements go into a table of their own.

use std::collections::BTreeSet;

use super::ast::{Argument, Import, Include, MacroDefinition, Statement, StatementKind, Target};
use super::check;
use super::config::{Bound, Config};
use super::diagnostic::{BindingKey, Diagnostic, Severity};
use super::find::{Finder, LIBRARY, PythonModule, TASK_LIBRARY, plain};
use super::includes::late_includes;
use super::load::{Loaded, Mention, Named, Request};
use super::mistakes::MAX_MISTAKES;
use super::module_name::named_modules;
use super::older::{Became, Older, notices};
use super::parse::parse;
use super::resolve::{Imports, Unresolved, is_builtin, resolve};
use super::schema::{Registry, Schema};
use super::source::{FileId, Source, SourceFile, SourceMap, Span};
use super::suggest::did_you_mean;
use super::unused::ineffective;
use super::value::{MacroUse, Value, ValueKind};

/// The greatest depth of files that include each other; it bounds the stack.
const MAX_OPEN: usize = 100;

/// The table into which a text's statements go.
#[derive(Clone, Copy, PartialEq)]
enum Table {
    Run,
    Tasks,
}

/// Applies texts one after another.
pub(super) struct Loader<'a> {
    registry: &'a Registry,
    request: &'a Request,
    finder: Finder<'a>,
    sources: SourceMap,
    run: Config,
    tasks: Config,
    diagnostics: Vec<Diagnostic>,
    mentions: Vec<Mention>,
    /// Whether a statement or a file is missing, so that missing bindings are not reported.
    incomplete: bool,
    /// The unknown selectors that were skipped.
    skipped: BTreeSet<String>,
    /// The names of earlier versions that texts use, with their places.
    older: Vec<(Span, &'static Older)>,
    /// Files being read, outermost first.
    open: Vec<String>,
    /// Task files read already: a second import does nothing.
    imported: Vec<String>,
    /// Imported modules that are Python.
    python_modules: Vec<PythonModule>,
    /// Imports of all files, which command-line bindings may use too.
    all_imports: Imports,
}

impl<'a> Loader<'a> {
    pub fn new(request: &'a Request, source: &'a dyn Source, registry: &'a Registry) -> Self {
        Self {
            registry,
            request,
            finder: Finder::new(source, &request.search_paths),
            sources: SourceMap::default(),
            run: Config::default(),
            tasks: Config::default(),
            diagnostics: Vec::new(),
            mentions: Vec::new(),
            incomplete: false,
            skipped: BTreeSet::new(),
            older: Vec::new(),
            open: Vec::new(),
            imported: Vec::new(),
            python_modules: Vec::new(),
            all_imports: Imports::default(),
        }
    }

    pub fn command_line_file(&mut self, path: &str) {
        match self.finder.find(path, LIBRARY, None) {
            Ok(Some((name, text))) => self.file(name, text, None, Table::Run),
            Ok(None) => {
                let missing = self.finder.missing_file(path, LIBRARY);
                self.lacks(Diagnostic { place: None, ..missing });
            }
            Err(error) => self.lacks(Diagnostic::nowhere(error)),
        }
    }

    pub fn command_line_binding(&mut self, flag: &str, text: &str) {
        let file =
            SourceFile { name: flag.to_string(), text: text.to_string(), included_from: None };
        let file = self.sources.add(file);
        let imports = self.all_imports.clone();
        self.statements(file, text, imports, Table::Run);
    }

    fn file(&mut self, name: String, text: String, from: Option<Span>, table: Table) {
        if let Some(from) = from.filter(|_| self.open.len() >= MAX_OPEN) {
            let message = format!("files include each other more than {MAX_OPEN} levels deep");
            return self.lacks(Diagnostic::error(from, message));
        }
        let source = SourceFile { name: name.clone(), text: text.clone(), included_from: from };
        let file = self.sources.add(source);
        self.open.push(name);
        self.statements(file, &text, Imports::default(), table);
        self.open.pop();
    }

    fn statements(&mut self, file: FileId, text: &str, mut imports: Imports, table: Table) {
        let (statements, diagnostics) = parse(file, text);
        self.incomplete |= diagnostics.iter().any(|d| d.severity == Severity::Error);
        self.diagnostics.extend(diagnostics);
        for Statement { kind, .. } in statements {
            if self.diagnostics.len() > MAX_MISTAKES {
                return;
            }
            match kind {
                StatementKind::Binding(target, argument) => {
                    self.bind(&target, vec![argument], &imports, table);
                }
                StatementKind::Block(target, arguments) => {
                    self.bind(&target, arguments, &imports, table);
                }
                StatementKind::Macro(definition) => {
                    let named = definition.span;
                    self.define(definition, named, &imports, table);
                }
                StatementKind::Import(_) | StatementKind::Include(_) if self.request.alone => {}
                StatementKind::Import(import) => self.import(import, &mut imports, table),
                StatementKind::Include(include) => self.include(&include, table),
            }
        }
    }

    /// Records a mistake because of which a statement or file is missing.
    fn lacks(&mut self, diagnostic: Diagnostic) {
        self.incomplete = true;
        self.diagnostics.push(diagnostic);
    }

    /// Records an unknown or ambiguous name.
    fn unresolved(&mut self, unresolved: Unresolved) {
        self.incomplete = true;
        self.diagnostics.extend(unresolved.into_diagnostic());
    }

    /// Adds the configurables that the bound parameter takes to the report of an unknown name, unless they are many.
    fn with_expected(&self, mut error: Diagnostic, bound: Option<&BindingKey>) -> Diagnostic {
        let param = bound.and_then(|(_, schema, name)| self.registry.get(schema)?.param(name));
        let are_few = |expected: &str| (1..=8).contains(&expected.matches('@').count());
        if let Some(param) = param.filter(|param| are_few(&param.expected)) {
            error.help.insert(0, format!("`{}` takes {}", param.name, param.expected));
        }
        error
    }

    fn mention(&mut self, span: Span, named: Named, table: Table) {
        self.mentions.push(Mention { span, named, in_task_file: table == Table::Tasks });
    }

    fn table(&mut self, table: Table) -> &mut Config {
        match table {
            Table::Run => &mut self.run,
            Table::Tasks => &mut self.tasks,
        }
    }

    fn bind(&mut self, target: &Target, arguments: Vec<Argument>, imports: &Imports, table: Table) {
        if self.is_macro(&target.selector, imports) {
            for Argument { span, value, .. } in arguments {
                let path = target.scope.join("/");
                let end = target.span.start.saturating_sub(1);
                let named = Span { start: end.saturating_sub(path.len()), end, ..target.span };
                self.define(MacroDefinition { path, span, value }, named, imports, table);
            }
            return;
        }
        let schema = match self.resolve(&target.selector, target.span, imports, table) {
            Ok(schema) => schema,
            Err(Unresolved::Gone(older, span)) => return self.older.push((span, older)),
            Err(Unresolved::Unknown(_) | Unresolved::Absent(_))
                if self.request.skip_unknown.skips(&target.selector) =>
            {
                self.skipped.insert(target.selector.clone());
                return;
            }
            Err(unresolved) => return self.unresolved(unresolved),
        };
        for Argument { name, span, mut value } in arguments {
            let Some(name) = self.parameter(schema, name, span) else { continue };
            if let Some(refusal) = schema.refusal(&name) {
                let names = schema.params.iter().map(|param| param.name);
                let mut diagnostic = Diagnostic::error(span, refusal);
                if schema.param(&name).is_none() {
                    diagnostic = diagnostic.help(did_you_mean(&name, names));
                }
                self.diagnostics.push(diagnostic);
                continue;
            }
            self.mention(span, Named::Parameter(schema, name.clone()), table);
            let (scope, configurable) = (target.scope.join("/"), schema.name);
            let key = (scope.clone(), configurable, name.clone());
            // A value with a skipped name is wrong only if no later one replaces it.
            self.diagnostics.retain(|earlier| earlier.wrong_for != [key.clone()]);
            self.resolve_names(&mut value, Some(&key), imports, table);
            let bindings = self.table(table).bindings.entry((scope, configurable)).or_default();
            let before = bindings.remove(&name);
            bindings.insert(name, Bound::replacing(value, span, before));
        }
    }

    /// Returns the present name of a parameter, None if an earlier version had it and it has no effect today.
    fn parameter(&mut self, schema: &Schema, name: String, span: Span) -> Option<String> {
        let is_older = schema.refusal(&name).is_some();
        let older = self.registry.modules.older(&format!("{}.{name}", schema.name));
        let Some(older) = older.filter(|_| is_older) else { return Some(name) };
        self.older.push((span, older));
        match older.became {
            Became::Nothing(_) => None,
            Became::Name(today) => today.rsplit('.').next().map(str::to_string),
        }
    }

    /// Returns the present name of a module that an earlier version had.
    fn module(&mut self, import: &Import) -> Option<String> {
        let older = self.registry.modules.older(&import.module)?;
        let Became::Name(today) = older.became else { return None };
        self.older.push((import.span, older));
        Some(today.to_string())
    }

    /// Defines a macro whose path stands at `named`.
    fn define(
        &mut self,
        definition: MacroDefinition,
        named: Span,
        imports: &Imports,
        table: Table,
    ) {
        let MacroDefinition { path, span, mut value } = definition;
        self.mention(named, Named::MacroDefinition(path.clone()), table);
        self.resolve_names(&mut value, None, imports, table);
        let macros = &mut self.table(table).macros;
        let before = macros.remove(&path);
        macros.insert(path, Bound::replacing(value, span, before));
    }

    /// Finds the configurable that a selector means.
    fn resolve(
        &mut self,
        selector: &str,
        span: Span,
        imports: &Imports,
        table: Table,
    ) -> Result<&'static Schema, Unresolved> {
        let mentioned = match table {
            Table::Run => &self.run.mentioned,
            Table::Tasks => &self.tasks.mentioned,
        };
        let found = resolve(selector, span, imports, mentioned, self.registry)?;
        self.older.extend(found.older.map(|older| (span, older)));
        let schema = found.schema;
        self.mention(span, Named::Configurable(schema), table);
        let table = self.table(table);
        table.mentioned.insert(schema.name);
        // An old name is printed as it is read.
        if let Some(source) = imports.source_of(selector).filter(|_| found.older.is_none()) {
            table.sources.entry(schema.name).or_insert(source);
        }
        Ok(schema)
    }

    /// Whether a selector is gin's own `macro`. If a project also has a `macro`, and with dynamic
    /// registration, only the full name counts.
    fn is_macro(&self, selector: &str, imports: &Imports) -> bool {
        let alone = || !imports.dynamic && self.registry.with_suffix("macro").is_empty();
        is_macro(selector) && (selector == "gin.macro" || alone())
    }

    /// Replaces every reference and constant in a value by its full name. `bound` is the parameter that has the value.
    fn resolve_names(
        &mut self,
        value: &mut Value,
        bound: Option<&BindingKey>,
        imports: &Imports,
        table: Table,
    ) {
        value.for_each_mut(&mut |value| match &mut value.kind {
            ValueKind::Reference(reference) if self.is_macro(&reference.selector, imports) => {
                if !reference.called {
                    let diagnostic = Diagnostic::error(value.span, "a macro must be evaluated");
                    self.diagnostics.push(diagnostic.help("add `()`, or write `%NAME`"));
                }
                let mut scope = std::mem::take(&mut reference.scope);
                let name = scope.pop().unwrap_or_default();
                let used = MacroUse { scope, name };
                self.mention(value.span, Named::MacroUse(used.path()), table);
                value.kind = ValueKind::Macro(used);
            }
            ValueKind::Reference(reference) => {
                match self.resolve(&reference.selector, value.span, imports, table) {
                    Ok(schema) => reference.target = schema.name.to_string(),
                    Err(Unresolved::Gone(older, span)) => {
                        self.older.push((span, older));
                        value.kind = ValueKind::None;
                    }
                    Err(Unresolved::Unknown(diagnostic) | Unresolved::Absent(diagnostic))
                        if bound.is_some()
                            && self.request.skip_unknown.skips(&reference.selector) =>
                    {
                        self.skipped.insert(reference.selector.clone());
                        let wrong_for = bound.cloned().into_iter().collect();
                        self.diagnostics.push(Diagnostic { wrong_for, ..diagnostic });
                    }
                    Err(Unresolved::Unknown(diagnostic)) => {
                        let diagnostic = self.with_expected(diagnostic, bound);
                        self.unresolved(Unresolved::Unknown(diagnostic));
                    }
                    Err(unresolved) => self.unresolved(unresolved),
                }
            }
            ValueKind::Macro(used) => match self.registry.matching_constants(&used.path())[..] {
                [] => self.mention(value.span, Named::MacroUse(used.path()), table),
                [constant] => used.name = constant.to_string(),
                ref several => {
                    let message =
                        format!("`%{}` could be any of {}", used.name, several.join(", "));
                    let diagnostic = Diagnostic::error(value.span, message);
                    self.diagnostics.push(diagnostic.help("write more of its dotted name"));
                }
            },
            _ => {}
        });
    }

    fn import(&mut self, import: Import, imports: &mut Imports, table: Table) {
        if let Some(feature) = import.module.strip_prefix("__gin__.") {
            self.gin_feature(feature, &import, imports);
        } else if !self.registry.any_module
            && !is_builtin(&import.module, self.registry)
            && !self.task_module(&import, table)
        {
            imports.add_failed(&import);
            return self.all_imports.add_failed(&import);
        }
        imports.add(&import);
        self.all_imports.add(&import);
        self.table(table).imports.insert(import.to_string(), import);
    }

    fn gin_feature(&mut self, feature: &str, import: &Import, imports: &mut Imports) {
        if feature != "dynamic_registration" {
            let message = format!("`{feature}` is not a feature of gin");
            let diagnostic = Diagnostic::error(import.span, message);
            self.diagnostics.push(diagnostic.help(did_you_mean(feature, ["dynamic_registration"])));
        } else if !imports.is_empty() {
            let message = "`dynamic_registration` must come before every other import of the file";
            self.diagnostics.push(Diagnostic::error(import.span, message));
        }
        imports.dynamic = true;
    }

    /// Loads the task file that stands for a Python module; `false` if there is none.
    fn task_module(&mut self, import: &Import, table: Table) -> bool {
        let path = format!("{}.gin", import.module.replace('.', "/"));
        match self.finder.find(&path, TASK_LIBRARY, None) {
            Ok(Some((name, text))) => {
                self.mention(import.span, Named::File(name.clone()), table);
                if !self.imported.contains(&name) {
                    self.imported.push(name.clone());
                    self.file(name, text, Some(import.span), Table::Tasks);
                }
                return true;
            }
            Ok(None)
                if let Some(module) = self.module(import)
                    && !self.request.skip_unknown.skips_imports() =>
            {
                return self.task_module(&Import { module, ..import.clone() }, table);
            }
            Ok(None) => {
                let python = self.finder.python_module(import, &self.request.python_paths);
                if !self.request.skip_unknown.skips_imports() {
                    let missing =
                        self.finder.missing_module(import, python.as_ref(), self.registry);
                    self.lacks(missing);
                }
                self.python_modules.extend(python);
            }
            Err(error) => self.lacks(Diagnostic::error(import.span, error)),
        }
        false
    }

    fn include(&mut self, include: &Include, table: Table) {
        let library = if table == Table::Run { LIBRARY } else { TASK_LIBRARY };
        let including = self.open.last().cloned();
        match self.finder.find(&include.path, library, including.as_deref()) {
            Ok(Some((name, _))) if self.open.iter().any(|open| plain(open) == plain(&name)) => {
                let message = format!("`{}` includes itself", include.path);
                let chain = self.open.join(" -> ");
                let diagnostic = Diagnostic::error(include.span, message);
                self.lacks(diagnostic.help(format!("the chain is {chain} -> {name}")));
            }
            Ok(Some((name, text))) => {
                self.mention(include.span, Named::File(name.clone()), table);
                self.file(name, text, Some(include.span), table);
            }
            Ok(None) => {
                let mut missing = self.finder.missing_file(&include.path, library);
                missing.place = Some((include.span, "not found".to_string()));
                self.lacks(missing);
            }
            Err(error) => self.lacks(Diagnostic::error(include.span, error)),
        }
    }

    /// Imports the modules named by values of the run.
    fn named_modules(&mut self) {
        for (module, span) in named_modules(&self.run, self.registry) {
            let import = Import { module, from: false, alias: None, span };
            if !is_builtin(&import.module, self.registry) {
                self.task_module(&import, Table::Run);
            }
        }
    }

    pub fn finish(mut self) -> Loaded {
        if !self.request.alone {
            self.named_modules();
        }
        self.diagnostics.extend(notices(&self.older));
        for config in [&self.run, &self.tasks] {
            self.diagnostics.extend(check::inconsistent(config, self.registry));
        }
        // After a failed text, reports of missing values would be noise: it may have bound them.
        if !self.incomplete {
            let late = late_includes(&self.run, &self.sources);
            for config in [&self.run, &self.tasks].into_iter().filter(|_| !self.request.fragment) {
                let missing = check::incomplete(config, self.registry).into_iter();
                self.diagnostics.extend(missing.filter(|missing| !late.explain(missing)));
            }
            let late = late.into_diagnostics(&self.sources).into_iter();
            // In a part of a configuration, values may still be missing.
            self.diagnostics.extend(late.map(|late| match self.request.fragment {
                true => late.warning(),
                false => late,
            }));
            self.diagnostics.extend(ineffective(&self.run, &self.sources));
        }
        self.diagnostics.sort_by_key(|diagnostic| diagnostic.severity);
        Loaded {
            sources: self.sources,
            config: self.run,
            tasks: self.tasks,
            diagnostics: self.diagnostics,
            mentions: self.mentions,
            incomplete: self.incomplete,
            python_modules: self.python_modules,
            skipped: self.skipped,
        }
    }
}

/// `macro.value = x` in scope `NAME` is `NAME = x`.
pub(super) fn is_macro(selector: &str) -> bool {
    ["gin.macro", "macro"].contains(&selector)
}
