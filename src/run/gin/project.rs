//! The configuration for a tool: files, flags and the configurables that they may name.

use anyhow::{Context, anyhow};
use clap::Args;

use crate::gin::{
    Diagnostic, Diagnostics, Loaded, Registry, Running, Schema, Severity, configurable, registry_of,
};
use crate::run::configure::{MODULES, registry, running};
use crate::run::dialect::{Language, Registries};
use crate::run::failure::Failure;
use crate::run::gin_flags::GinFileArgs;
use crate::run::library::{Library, read_anywhere};
use crate::run::root::roots;
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
    /// Loads the configuration of tools that need one.
    ///
    /// # Errors
    /// Those of [`Project::load`]; neither a file nor a binding is given.
    pub fn load(&self, schemas: &[String]) -> Result<Project, Failure> {
        let by_flag = &self.reading.by_flag;
        if self.files.is_empty() && by_flag.gin_file.is_empty() && by_flag.gin_bindings.is_empty() {
            return Err(Failure::usage(anyhow!("no configuration: name a gin file")));
        }
        Project::load(&self.files, &self.reading, schemas)
    }
}

/// Options for reading files.
#[derive(Args, Debug, Default)]
pub struct ReadingArgs {
    /// Gin files by flag, which come before those named without one, and bindings.
    #[command(flatten)]
    pub by_flag: GinFileArgs,
    /// Selector of the configurable to run, if the files do not name it.
    #[arg(long = "root", value_name = "SELECTOR")]
    pub root: Option<String>,
}

/// A configuration with everything that it may name.
pub struct Project {
    /// Missing values and undefined macros, which are no mistakes in a part of a configuration.
    lacking: Vec<Diagnostic>,
    /// Warnings of bindings that nothing reads.
    unread: Vec<Diagnostic>,
    /// Every configurable that the files may name.
    pub registry: Registry,
    /// The configuration, mistakes among its warnings.
    pub loaded: Loaded,
    /// The configurables to run, the main one first; empty if the files are only a part of a configuration.
    pub roots: Vec<&'static Schema>,
    /// Everything that runs, each in its scope.
    pub running: Vec<Running>,
    /// The language in which the files are written.
    pub language: Language,
}

impl Project {
    /// Loads the configuration. Missing values and undefined macros are no
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
        let registries = registries_for(schemas)?;
        let mut request = reading.by_flag.request();
        request.files.extend_from_slice(files);
        request.files.iter_mut().for_each(|file| *file = file_of(file));
        let (mut loaded, language) = registries.load(&request, &Library);
        let registry = registries.into_one(language);
        let (lacking, diagnostics) =
            std::mem::take(&mut loaded.diagnostics).into_iter().partition(|d| d.missing.is_some());
        loaded.diagnostics = diagnostics;
        let running = match &reading.root {
            Some(root) => {
                let root = configurable(root, &loaded, &registry).map_err(|diagnostic| {
                    Failure::usage(anyhow!("--root: {}", diagnostic.message))
                })?;
                running(&[root], &loaded.config)
            }
            None => language.running(&loaded.config, &registry),
        };
        // Tasks and mixtures are declared in scopes of their own.
        let roots = running.iter().filter(|(scope, _)| scope.is_empty());
        // The run of a dialect calls the others.
        let number = if language.is_dialect() { 1 } else { usize::MAX };
        let roots = roots.map(|(_, schema)| *schema).take(number).collect();
        let unread = loaded.settle(&running, &registry);
        Ok(Self { registry, loaded, lacking, unread, roots, running, language })
    }

    /// Adds to the diagnostics the values that the root needs, and the bindings that nothing reads.
    pub fn complete(mut self) -> Self {
        if !self.roots.is_empty() {
            self.loaded.diagnostics.append(&mut self.lacking);
            self.loaded.diagnostics.append(&mut self.unread);
        }
        let unbound = self.loaded.unbound(&self.running, &self.registry);
        self.loaded.diagnostics.extend(unbound);
        let refused = self.language.refused(&self.loaded, &self.registry);
        let known = &self.loaded.diagnostics;
        let refused = refused.into_iter().filter(|one| !known.contains(one)).collect::<Vec<_>>();
        self.loaded.diagnostics.extend(refused);
        self
    }

    /// Returns the project if all files are correct, so that its configuration can be printed.
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

    /// Returns the configurable to run.
    ///
    /// # Errors
    /// Neither a flag nor the files name it.
    pub fn root(&self) -> Result<&'static Schema, Failure> {
        self.roots.first().copied().ok_or_else(|| {
            let known: Vec<&str> = roots().into_iter().map(|root| root.name).collect();
            let known = known.join(", ");
            Failure::usage(anyhow!(
                "the files bind nothing of {known}: say what is run with --root"
            ))
        })
    }

    /// Returns the configurables, each in its scope, whose values an operative configuration has.
    ///
    /// # Errors
    /// Neither a flag nor the files name one.
    pub fn operative_roots(&self) -> Result<Vec<(Vec<String>, &'static Schema)>, Failure> {
        Ok(match self.language.is_dialect() {
            false => vec![(Vec::new(), self.root()?)],
            true => self.running.iter().map(|(_, schema)| (Vec::new(), *schema)).collect(),
        })
    }

    /// Combines diagnostics with their texts.
    pub fn diagnostics(&self, list: Vec<Diagnostic>) -> Diagnostics {
        Diagnostics { sources: self.loaded.sources.clone(), list }
    }
}

/// Returns the names that `--schema` files declare; without any, those of every language that Gimlet knows.
///
/// # Errors
/// A file that cannot be read, or is no schema.
pub fn registries_for(schemas: &[String]) -> Result<Registries, Failure> {
    match schemas {
        [] => Ok(Registries::all()),
        schemas => registry_for(schemas).map(Registries::only),
    }
}

/// Returns the registry that `--schema` files declare; without any, Gimlet's own.
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
        .map(|registry| registry.with_modules(MODULES))
        .map_err(|error| Failure::usage(anyhow!(error)))
}

/// Converts a run's folder to the configuration that the run wrote there.
fn file_of(path: &str) -> String {
    match Path::parse(path).and_then(|path| path.is_dir()).unwrap_or(false) {
        true => format!("{}/config.gin", path.trim_end_matches('/')),
        false => path.to_string(),
    }
}
