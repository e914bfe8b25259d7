//! What can be loaded, and what loading gives; [`super::loader`] does it.

use super::config::Config;
use super::diagnostic::{Diagnostic, Diagnostics, Severity};
use super::loader::Loader;
use super::schema::{Registry, Schema};
use super::source::{Source, SourceMap, Span};
use super::unused::{run, unread};

/// What to load, in this order: files, then bindings.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// Paths as given with `--gin_file`.
    pub files: Vec<String>,
    /// `(flag, statement)` of each binding given on the command line.
    pub bindings: Vec<(String, String)>,
    /// Folders that includes and task files are searched in, after the working directory.
    pub search_paths: Vec<String>,
    /// Which bindings of unknown configurables are dropped.
    pub skip_unknown: SkipUnknown,
    /// Leaves includes and imports out.
    pub alone: bool,
    /// Takes the texts for a part of a configuration: values still required and macros that others
    /// define are no mistakes.
    pub fragment: bool,
}

/// Which bindings of unknown configurables are dropped instead of refused.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum SkipUnknown {
    /// None of them.
    #[default]
    No,
    /// All of them.
    All,
    /// Those whose selector is written so.
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

    pub(super) fn skips_imports(&self) -> bool {
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
    /// What the run is bound to.
    pub config: Config,
    /// What task files bind.
    pub tasks: Config,
    /// What is legal and probably not meant; from [`load_anyway`], errors too.
    pub diagnostics: Vec<Diagnostic>,
    /// What the texts name, in the order met.
    pub mentions: Vec<Mention>,
    /// Whether a statement or a file could not be read, so that nobody can say what is missing.
    pub incomplete: bool,
}

/// A place in a text that names something.
#[derive(Clone, Debug)]
pub struct Mention {
    /// The place.
    pub span: Span,
    /// What it names.
    pub named: Named,
    /// Whether a task file says it.
    pub in_task_file: bool,
}

/// What a text can name.
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
    /// A file that is included or imported, by the name it was found under.
    File(String),
}

/// A configurable that is run, and the scope it is run in.
pub type Running = (String, &'static Schema);

impl Loaded {
    /// Takes note of what runs: a value of the wrong type is no mistake where nothing reads it. Gives
    /// warnings of bindings that nothing reads and of misspelled scopes. Those of the library are left
    /// out: it serves many runs.
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

    /// The parameters that have neither a value nor a default although they are needed by what runs.
    pub fn unbound(&self, running: &[Running], registry: &Registry) -> Vec<Diagnostic> {
        match self.incomplete {
            true => Vec::new(),
            false => run(&self.config, running, registry).missing,
        }
    }

    /// The configuration if nothing is wrong with it.
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

/// Loads what can be loaded of a configuration, with its mistakes among the diagnostics.
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
