//! The request and the result of loading; [`super::loader`] does the work.

use std::collections::BTreeSet;

use super::config::Config;
use super::diagnostic::{Diagnostic, Diagnostics, Severity};
use super::find::PythonModule;
use super::loader::Loader;
use super::schema::{Registry, Schema};
use super::source::{Source, SourceMap, Span};
use super::unused::{run, unread};

/// The texts to load, in this order: files, then bindings.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// Paths as given with `--gin_file`.
    pub files: Vec<String>,
    /// `(flag, statement)` of each binding given on the command line.
    pub bindings: Vec<(String, String)>,
    /// Folders that includes and task files are searched in, after the working directory.
    pub search_paths: Vec<String>,
    /// Further folders in which Python finds modules.
    pub python_paths: Vec<String>,
    /// The bindings of unknown configurables to drop.
    pub skip_unknown: SkipUnknown,
    /// Whether includes and imports are skipped.
    pub alone: bool,
    /// Whether the texts are only a part of a configuration: missing values and undefined macros
    /// are then no mistakes.
    pub fragment: bool,
}

/// The bindings of unknown configurables that are dropped instead of refused.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum SkipUnknown {
    /// None of them.
    #[default]
    No,
    /// All of them.
    All,
    /// The ones with one of these selectors, as written.
    Named(Vec<String>),
}

impl SkipUnknown {
    pub(super) fn skips(&self, selector: &str) -> bool {
        match self {
            Self::No => false,
            Self::All => true,
            Self::Named(names) => names.iter().any(|name| name == selector),
        }
    }

    /// Whether imports that fail are skipped.
    pub fn skips_imports(&self) -> bool {
        match self {
            Self::No => false,
            Self::All => true,
            Self::Named(names) => !names.is_empty(),
        }
    }
}

/// A loaded configuration.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// Every text read.
    pub sources: SourceMap,
    /// The run's bindings and macros.
    pub config: Config,
    /// The bindings and macros of task files.
    pub tasks: Config,
    /// Warnings of legal but probably unintended statements; from [`load_anyway`], errors too.
    pub diagnostics: Vec<Diagnostic>,
    /// The mentions in the texts, in the order met.
    pub mentions: Vec<Mention>,
    /// Whether a statement or a file could not be read, so that missing parts are not known.
    pub incomplete: bool,
    /// Imported modules without a task file that are Python, in the order met.
    pub python_modules: Vec<PythonModule>,
    /// The unknown selectors that were skipped, as written.
    pub skipped: BTreeSet<String>,
}

/// A place in a text that names a configurable, parameter, macro or file.
#[derive(Clone, Debug)]
pub struct Mention {
    /// The place.
    pub span: Span,
    /// The named thing.
    pub named: Named,
    /// Whether the place is in a task file.
    pub in_task_file: bool,
}

/// A thing that a text can name.
#[derive(Clone, Debug)]
pub enum Named {
    /// A configurable, in a key or a reference.
    Configurable(&'static Schema),
    /// A parameter that is bound.
    Parameter(&'static Schema, String),
    /// A macro that is defined.
    MacroDefinition(String),
    /// A macro that is used.
    MacroUse(String),
    /// An included or imported file, by the name under which it was found.
    File(String),
}

/// A configurable that is run, and the scope in which it runs.
pub type Running = (String, &'static Schema);

impl Loaded {
    /// Drops type errors of values that nothing in `running` reads. Returns warnings of bindings
    /// that nothing reads and of misspelled scopes; bindings of the library are left out, because
    /// it serves many runs.
    pub fn settle(&mut self, running: &[Running], registry: &Registry) -> Vec<Diagnostic> {
        if self.incomplete || running.is_empty() {
            return Vec::new();
        }
        let reached = run(&self.config, running, registry);
        self.diagnostics.retain(|diagnostic| {
            let wrong_for = &diagnostic.wrong_for;
            wrong_for.is_empty() || wrong_for.iter().any(|key| reached.used.contains(key))
        });
        unread(&self.config, &self.sources, &reached, registry)
    }

    /// Reports parameters that the run needs and that have neither a value nor a default.
    pub fn unbound(&self, running: &[Running], registry: &Registry) -> Vec<Diagnostic> {
        match self.incomplete {
            true => Vec::new(),
            false => run(&self.config, running, registry).missing,
        }
    }

    /// Returns the configuration if it has no errors.
    ///
    /// # Errors
    /// Every mistake found in any of the texts.
    pub fn checked(self) -> Result<Self, Diagnostics> {
        match self.diagnostics.iter().any(|d| d.severity == Severity::Error) {
            false => Ok(self),
            true => Err(Diagnostics { sources: self.sources, list: self.diagnostics }),
        }
    }
}

/// Loads and checks a configuration.
///
/// # Errors
/// Every mistake found in any of the texts.
pub fn load(
    request: &Request,
    source: &dyn Source,
    registry: &Registry,
) -> Result<Loaded, Diagnostics> {
    load_anyway(request, source, registry).checked()
}

/// Loads as much of a configuration as possible, with its mistakes among the diagnostics.
pub fn load_anyway(request: &Request, source: &dyn Source, registry: &Registry) -> Loaded {
    let mut loader = Loader::new(request, source, registry);
    for file in &request.files {
        loader.command_line_file(file);
    }
    for (flag, text) in &request.bindings {
        loader.command_line_binding(flag, text);
    }
    loader.finish()
}
