//! Completions for a name: every proposal for a context, which the editor filters by the typed
//! text.

use lsp_types::CompletionItemKind;

use crate::gin::{
    Fallback, Finder, LIBRARY, Named, Param, Registry, Schema, Selector, Value, ValueKind,
    selectors,
};
use crate::run::declarations::{Declaration, declared};
use crate::run::library::Library;

use super::analysis::Analysis;
use super::context::{Context, Typed};
use super::hover::described;
use super::project::Project;

/// One proposal.
#[derive(Clone, Debug, PartialEq)]
pub struct Proposal {
    /// The replacement for the word before the cursor.
    pub text: String,
    /// Its icon in the list.
    pub kind: CompletionItemKind,
    /// A remark beside it.
    pub detail: String,
    /// The documentation below it, in Markdown.
    pub doc: String,
    /// A statement that the file needs for it and does not contain.
    pub import: Option<String>,
}

impl Proposal {
    fn new(text: impl Into<String>, kind: CompletionItemKind) -> Self {
        let (detail, doc) = (String::new(), String::new());
        Self { text: text.into(), kind, detail, doc, import: None }
    }

    fn detail(self, detail: impl Into<String>) -> Self {
        Self { detail: detail.into(), ..self }
    }
}

/// Returns everything that may stand in the place of `typed`.
pub fn proposals(project: &Project, analysis: &Analysis, typed: &Typed<'_>) -> Vec<Proposal> {
    let registry = project.registry(analysis);
    let selectors = selectors(&analysis.imports(), registry);
    let desk = Desk { project, analysis, registry, selectors };
    match &typed.context {
        Context::Statement => desk.statement(typed.word),
        Context::Argument(selector) => desk.arguments(selector, ""),
        Context::Value(key) => desk.value(key, Quotes::Missing),
        Context::Text(key) => desk.value(key, Quotes::There),
        Context::Reference => desk.configurables(),
        Context::Macro => [desk.macros(), desk.constants()].concat(),
        Context::IncludePath => desk.includes(),
        Context::Module => desk.modules(),
        Context::Member(module) => desk.members(module),
    }
}

/// Whether the cursor is inside quotes already.
#[derive(Clone, Copy, PartialEq)]
enum Quotes {
    There,
    Missing,
}

struct Desk<'a> {
    project: &'a Project,
    analysis: &'a Analysis,
    registry: &'a Registry,
    /// The name of each configurable in the file.
    selectors: Vec<Selector>,
}

impl Desk<'_> {
    fn statement(&self, word: &str) -> Vec<Proposal> {
        let mut out = Vec::new();
        if let Some((selector, _)) = word.rsplit_once('.') {
            out.extend(self.arguments(selector, &format!("{selector}.")));
        }
        out.extend(self.macros());
        out.extend(self.configurables());
        let keywords = ["include ", "import ", "from "];
        out.extend(keywords.map(|word| Proposal::new(word, CompletionItemKind::Keyword)));
        out
    }

    /// Returns the configurable that a selector means in this file.
    fn schema(&self, selector: &str) -> Option<&'static Schema> {
        let name = selector.rsplit('/').next().expect("split yields one part");
        let same = self.selectors.iter().find(|selector| selector.text == name);
        let suffix = || self.registry.with_suffix(name).first().copied();
        same.map(|selector| selector.schema).or_else(|| self.registry.get(name)).or_else(suffix)
    }

    fn arguments(&self, selector: &str, before: &str) -> Vec<Proposal> {
        let Some(schema) = self.schema(selector) else { return Vec::new() };
        let params = schema.params.iter().filter(|param| schema.refusal(param.name).is_none());
        let argument = |param: &Param| Proposal {
            doc: param.doc.to_string(),
            ..Proposal::new(format!("{before}{}", param.name), CompletionItemKind::Property)
                .detail(described(param).replace('`', ""))
        };
        params.map(argument).collect()
    }

    fn configurables(&self) -> Vec<Proposal> {
        let proposal = |selector: &Selector| Proposal {
            doc: selector.schema.doc.to_string(),
            import: selector.import.clone(),
            ..Proposal::new(&selector.text, CompletionItemKind::Class).detail(selector.schema.name)
        };
        self.selectors.iter().map(proposal).collect()
    }

    /// Macros that are defined, or used and not defined yet.
    fn macros(&self) -> Vec<Proposal> {
        let macros = &self.analysis.loaded.config.macros;
        let kind = CompletionItemKind::Constant;
        let mut out: Vec<Proposal> = macros
            .iter()
            .map(|(name, bound)| Proposal::new(name, kind).detail(shortened(&bound.value)))
            .collect();
        for mention in &self.analysis.loaded.mentions {
            let Named::MacroUse(name) = &mention.named else { continue };
            let known = out.iter().any(|proposal| proposal.text == *name);
            if !known && !mention.in_task_file {
                out.push(Proposal::new(name, kind).detail("not defined here"));
            }
        }
        out
    }

    /// Constants, which are used like macros.
    fn constants(&self) -> Vec<Proposal> {
        let constant =
            |name| Proposal::new(name, CompletionItemKind::Constant).detail("a constant");
        self.registry.constants().map(constant).collect()
    }

    /// Values that a key may have: tasks, choices in the schema, and values bound already.
    fn value(&self, key: &str, quotes: Quotes) -> Vec<Proposal> {
        let quoted = |text: &str| match quotes {
            Quotes::There => text.to_string(),
            Quotes::Missing => format!("\"{text}\""),
        };
        let mut out = Vec::new();
        if self.names_tasks(key) {
            out.extend(
                self.tasks().into_iter().map(|task| Proposal { text: quoted(&task.text), ..task }),
            );
        }
        if self.names_modules(key) {
            let module = |module: Proposal| Proposal { text: quoted(&module.text), ..module };
            out.extend(self.modules().into_iter().map(module));
        }
        let Some((selector, argument)) = key.rsplit_once('.') else { return out };
        let Some(param) = self.schema(selector).and_then(|schema| schema.param(argument)) else {
            return out;
        };
        // `'a', 'b' or None` names its choices in quotes.
        let choices = param.expected.split('\'').skip(1).step_by(2);
        let choice = |text: &str| Proposal::new(quoted(text), CompletionItemKind::EnumMember);
        out.extend(choices.map(choice));
        if quotes == Quotes::Missing {
            out.extend(self.unquoted(param));
        }
        out
    }

    /// Values of a parameter that need no quotes.
    fn unquoted(&self, param: &Param) -> Vec<Proposal> {
        let mut out = Vec::new();
        if let Fallback::Value(value) = &param.default {
            out.push(
                Proposal::new(value.to_string(), CompletionItemKind::Value).detail("the default"),
            );
        }
        let has = |word: &str| param.expected.contains(word);
        let words: [(&str, &[&str]); 2] = [("a bool", &["True", "False"]), ("None", &["None"])];
        for word in words.iter().filter(|(sign, _)| has(sign)).flat_map(|(_, words)| *words) {
            out.push(Proposal::new(*word, CompletionItemKind::Keyword));
        }
        out.extend(self.references(param));
        out.dedup_by(|a, b| a.text == b.text);
        out
    }

    /// References that a parameter accepts: `@A()` and `@B` if it expects `one of @A(), @B`.
    fn references(&self, param: &Param) -> Vec<Proposal> {
        let mut out = Vec::new();
        for proposal in self.configurables() {
            let short = proposal.text.rsplit('.').next().expect("split yields one part");
            for call in ["()", ""] {
                let name = format!("@{short}{call}");
                if param.expected.split([',', ' ']).any(|word| word == name) {
                    let text = format!("@{}{call}", proposal.text);
                    out.push(Proposal { text, ..proposal.clone() });
                }
            }
        }
        out
    }

    /// Whether a key's value is the name of a task: T5X's parameter and macro of that name, macros
    /// bound to the parameter, and the parts of a mixture.
    fn names_tasks(&self, key: &str) -> bool {
        const NAME: &str = "mixture_or_task_name";
        let last = key.rsplit(['.', '/']).next().expect("split yields one part");
        if last.eq_ignore_ascii_case(NAME) || (key.ends_with("Mixture.tasks")) {
            return true;
        }
        self.is_macro_of(key, |_, argument| argument == NAME)
    }

    /// Whether a key's value is the name of a module: T5X's macro, a parameter that imports, and
    /// macros bound to one.
    fn names_modules(&self, key: &str) -> bool {
        let imports = |schema: &Schema, argument: &str| {
            schema.param(argument).is_some_and(|param| param.names_module)
        };
        let is_parameter = || {
            let (selector, argument) = key.rsplit_once('.')?;
            Some(imports(self.schema(selector)?, argument))
        };
        key == "MIXTURE_OR_TASK_MODULE"
            || is_parameter() == Some(true)
            || self.is_macro_of(key, |name, argument| {
                self.registry.get(name).is_some_and(|schema| imports(schema, argument))
            })
    }

    /// Whether the macro `key` is bound to a parameter for which `is_wanted` is true, by
    /// configurable and name.
    fn is_macro_of(&self, key: &str, is_wanted: impl Fn(&str, &str) -> bool) -> bool {
        let is_key = |value: &Value| matches!(value, Value { kind: ValueKind::Macro(used), .. } if used.path() == key);
        self.analysis.loaded.config.bindings.iter().any(|((_, name), arguments)| {
            let mut arguments = arguments.iter();
            arguments.any(|(argument, bound)| is_wanted(name, argument) && is_key(&bound.value))
        })
    }

    /// Tasks of the configuration, then those of the library.
    fn tasks(&self) -> Vec<Proposal> {
        let here = declared(&self.analysis.loaded, self.registry).names.into_iter();
        let kind = CompletionItemKind::Value;
        let mut out: Vec<Proposal> = here
            .map(|(name, (_, declaration))| {
                let is_mixture = matches!(declaration, Declaration::Mixture(_));
                Proposal::new(name, kind).detail(if is_mixture { "mixture" } else { "task" })
            })
            .collect();
        for task in self.project.library_tasks() {
            if !out.iter().any(|known| known.text == task.name) {
                let import = format!("import {}", task.module);
                out.push(Proposal {
                    import: Some(import.clone()),
                    ..Proposal::new(&task.name, kind).detail(import)
                });
            }
        }
        out
    }

    /// Files, each by the shortest path under which an include finds it.
    fn includes(&self) -> Vec<Proposal> {
        let files = &self.project.files;
        let finder = Finder::new(files, self.project.search_paths());
        let own = files.name(&self.analysis.path);
        let folder = own.rsplit_once('/').map_or("", |(folder, _)| folder);
        let library = Library::files().into_iter().filter_map(|(name, _)| {
            let inner = name.strip_prefix(LIBRARY)?.trim_start_matches('/').to_string();
            Some(Proposal::new(inner, CompletionItemKind::File).detail("comes with Gimlet"))
        });
        let others = self.project.workspace.paths().filter(|path| *path != self.analysis.path);
        let mut out: Vec<Proposal> = library.collect();
        for path in others {
            let name = files.name(path);
            let roots = self.project.search_paths().iter().map(String::as_str).chain([folder]);
            let inner = roots.filter_map(|root| {
                let inner = name.strip_prefix(root)?;
                inner.strip_prefix('/').filter(|_| !root.is_empty())
            });
            let shortest = inner.chain([name.as_str()]).min_by_key(|inner| inner.len());
            let found = shortest.filter(|inner| {
                let found = finder.find(inner, LIBRARY, Some(&own)).ok().flatten();
                found.is_some_and(|(found, _)| files.path(&found) == path)
            });
            let text = found.unwrap_or(&name);
            out.push(Proposal::new(text, CompletionItemKind::File).detail(&name));
        }
        out
    }

    /// Modules of configurables, and task files.
    fn modules(&self) -> Vec<Proposal> {
        let of_name = |name: &'static str| name.match_indices('.').map(move |(at, _)| &name[..at]);
        let modules = self
            .registry
            .names()
            .flat_map(of_name)
            .filter(|module| module.split('.').next() != Some("gin"));
        let tasks = self.project.library_tasks().iter().map(|task| task.module.as_str());
        let mut names: Vec<&str> = modules.chain(tasks).collect();
        names.sort_unstable();
        names.dedup();
        let mut out: Vec<Proposal> =
            names.into_iter().map(|name| Proposal::new(name, CompletionItemKind::Module)).collect();
        out.push(Proposal::new("__gin__", CompletionItemKind::Module));
        out
    }

    fn members(&self, module: &str) -> Vec<Proposal> {
        if module == "__gin__" {
            return vec![Proposal::new("dynamic_registration", CompletionItemKind::Module)];
        }
        let prefix = format!("{module}.");
        let inside = |name: &'static str| name.strip_prefix(prefix.as_str())?.split('.').next();
        let mut names: Vec<&str> = self.registry.names().filter_map(inside).collect();
        names.sort_unstable();
        names.dedup();
        names.into_iter().map(|name| Proposal::new(name, CompletionItemKind::Module)).collect()
    }
}

fn shortened(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(60) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text,
    }
}
