//! The configuration that a tool is asked about: files, flags and the configurables they may name.

use anyhow::{Context, anyhow};
use clap::Args;

use crate::gin::{
    Diagnostic, Diagnostics, Loaded, Registry, Schema, Severity, configurable, load_anyway,
    registry_of,
};
use crate::run::cli::GinFileArgs;
use crate::run::configure::{ROOTS, bound_roots, registry, running};
use crate::run::failure::Failure;
use crate::run::library::{Library, read_anywhere};
use crate::storage::Path;

/// Flags of the tools that look at a whole configuration.
#[derive(Args, Debug)]
pub struct ProjectArgs {
    /// Gin files, later ones win; a folder stands for its config.gin.
    #[arg(value_name = "FILE")]
    pub files: Vec<String>,
    /// How the files are read.
    #[command(flatten)]
    pub reading: ReadingArgs,
}

impl ProjectArgs {
    /// Loads the configuration of tools that are of no use without one.
    ///
    /// # Errors
    /// As [`Project::load`]; where neither a file nor a binding is given.
    pub fn load(&self, schemas: &[String]) -> Result<Project, Failure> {
        let by_flag = &self.reading.by_flag;
        if self.files.is_empty() && by_flag.gin_file.is_empty() && by_flag.gin_bindings.is_empty() {
            return Err(Failure::usage(anyhow!("no configuration: name a gin file")));
        }
        Project::load(&self.files, &self.reading, schemas)
    }
}

/// How files are read.
#[derive(Args, Debug)]
pub struct ReadingArgs {
    /// Gin files by flag, which come before those named without one, and bindings.
    #[command(flatten)]
    pub by_flag: GinFileArgs,
    /// What is run, where the files do not show it: a selector.
    #[arg(long = "root", value_name = "SELECTOR")]
    pub root: Option<String>,
}

/// A configuration with everything that it may name.
pub struct Project {
    /// Values still required and macros that nothing defines, which are no mistakes in a part.
    lacking: Vec<Diagnostic>,
    /// Warnings of what nothing reads.
    unread: Vec<Diagnostic>,
    /// Every configurable that the files may name.
    pub registry: Registry,
    /// The configuration, mistakes among its warnings.
    pub loaded: Loaded,
    /// What is run, if asked what it is the first; none where the files are only a part of a configuration.
    pub roots: Vec<&'static Schema>,
}

impl Project {
    /// Loads the configuration. Values still required and macros that nothing defines are no
    /// mistakes yet.
    ///
    /// # Errors
    /// Schemas that cannot be read, a root that is not known. Mistakes in gin files are in
    /// `loaded.diagnostics`.
    pub fn load(
        files: &[String],
        reading: &ReadingArgs,
        schemas: &[String],
    ) -> Result<Self, Failure> {
        let registry = registry_for(schemas)?;
        let mut request = reading.by_flag.request();
        request.files.extend_from_slice(files);
        request.files.iter_mut().for_each(|file| *file = file_of(file));
        let mut loaded = load_anyway(&request, &Library, &registry);
        let (lacking, diagnostics) =
            std::mem::take(&mut loaded.diagnostics).into_iter().partition(|d| d.missing.is_some());
        loaded.diagnostics = diagnostics;
        let roots = match &reading.root {
            Some(root) => {
                vec![configurable(root, &loaded, &registry).map_err(|diagnostic| {
                    Failure::usage(anyhow!("--root: {}", diagnostic.message))
                })?]
            }
            None => bound_roots(&loaded.config, &registry),
        };
        let unread = loaded.settle(&running(&roots, &loaded.config), &registry);
        Ok(Self { registry, loaded, lacking, unread, roots })
    }

    /// The project with what is missing for its root to run, and what nothing reads, among the diagnostics.
    pub fn complete(mut self) -> Self {
        let running = running(&self.roots, &self.loaded.config);
        if !self.roots.is_empty() {
            self.loaded.diagnostics.append(&mut self.lacking);
            self.loaded.diagnostics.append(&mut self.unread);
        }
        let unbound = self.loaded.unbound(&running, &self.registry);
        self.loaded.diagnostics.extend(unbound);
        self
    }

    /// The project if no file is wrong, so that its configuration can be printed.
    ///
    /// # Errors
    /// Every mistake.
    pub fn readable(mut self) -> Result<Self, Failure> {
        let wrong = self.loaded.diagnostics.iter().any(|d| d.severity == Severity::Error);
        if wrong {
            self.loaded = self.loaded.checked()?;
        }
        Ok(self)
    }

    /// What is run.
    ///
    /// # Errors
    /// Where neither a flag nor the files say it.
    pub fn root(&self) -> Result<&'static Schema, Failure> {
        self.roots.first().copied().ok_or_else(|| {
            let known = ROOTS.join(", ");
            Failure::usage(anyhow!(
                "the files bind nothing of {known}: say what is run with --root"
            ))
        })
    }

    /// The diagnostics with the texts to show them in.
    pub fn diagnostics(&self, list: Vec<Diagnostic>) -> Diagnostics {
        Diagnostics { sources: self.loaded.sources.clone(), list }
    }
}

/// The registry that `--schema` files declare; without any, ours.
///
/// # Errors
/// A file that cannot be read, or is no schema.
pub fn registry_for(paths: &[String]) -> Result<Registry, Failure> {
    if paths.is_empty() {
        return Ok(registry());
    }
    let read = |path: &String| {
        read_anywhere(path).with_context(|| format!("cannot read {path}")).map_err(Failure::usage)
    };
    let texts: Vec<String> = paths.iter().map(read).collect::<Result<_, _>>()?;
    registry_of(paths.iter().map(String::as_str).zip(texts.iter().map(String::as_str)))
        .map_err(|error| Failure::usage(anyhow!(error)))
}

/// A run's folder stands for the configuration that the run wrote there.
fn file_of(path: &str) -> String {
    match Path::parse(path).and_then(|path| path.is_dir()).unwrap_or(false) {
        true => format!("{}/config.gin", path.trim_end_matches('/')),
        false => path.to_string(),
    }
}
