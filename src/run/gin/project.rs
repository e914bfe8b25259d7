//! The configuration that a tool is asked about: files, flags and the configurables they may name.

use std::fs;

use anyhow::{Context, anyhow};
use clap::Args;

use crate::gin::{
    Config, Diagnostic, Diagnostics, Loaded, Registry, Request, Schema, Severity, configurable,
    load_anyway, registry_of,
};
use crate::run::cli::{skip_unknown, typed_bindings};
use crate::run::configure::{ROOTS, registry};
use crate::run::failure::Failure;
use crate::run::library::Library;

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
        let reading = &self.reading;
        if self.files.is_empty() && reading.gin_file.is_empty() && reading.gin_bindings.is_empty() {
            return Err(Failure::usage(anyhow!("no configuration: name a gin file")));
        }
        Project::load(&self.files, reading, schemas)
    }
}

/// How files are read.
#[derive(Args, Debug)]
pub struct ReadingArgs {
    /// Gin file, as `train` takes it; before the files named without a flag.
    #[arg(long = "gin_file", value_name = "FILE")]
    pub gin_file: Vec<String>,
    /// Gin statement that wins over every file; `--gin.X=V` is short for `--gin_bindings='X = V'`.
    #[arg(long = "gin_bindings", alias = "gin_param", value_name = "BINDING")]
    pub gin_bindings: Vec<String>,
    /// Folders in which gin files are searched, after the working directory.
    #[arg(
        long = "gin_search_paths",
        value_name = "DIR,...",
        value_delimiter = ',',
        default_value = "."
    )]
    pub gin_search_paths: Vec<String>,
    /// Drop bindings of configurables that are not known: all, or those with these selectors.
    #[arg(
        long = "skip_unknown",
        value_name = "SELECTOR,...",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "",
        value_delimiter = ','
    )]
    pub skip_unknown: Option<Vec<String>>,
    /// What is run, where the files do not show it: a selector.
    #[arg(long = "root", value_name = "SELECTOR")]
    pub root: Option<String>,
}

/// A configuration with everything that it may name.
pub struct Project {
    request: Request,
    /// Every configurable that the files may name.
    pub registry: Registry,
    /// The configuration, mistakes among its warnings.
    pub loaded: Loaded,
    /// What is run; `None` where the files are only a part of a configuration.
    pub root: Option<&'static Schema>,
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
        let request = Request {
            files: reading.gin_file.iter().chain(files).map(|file| file_of(file)).collect(),
            bindings: typed_bindings(&reading.gin_bindings),
            search_paths: reading.gin_search_paths.clone(),
            skip_unknown: skip_unknown(reading.skip_unknown.as_deref()),
            fragment: true,
            ..Request::default()
        };
        let part = load_anyway(&request, &Library, &registry);
        let root =
            match &reading.root {
                Some(root) => Some(configurable(root, &part, &registry).map_err(|diagnostic| {
                    Failure::usage(anyhow!("--root: {}", diagnostic.message))
                })?),
                None => inferred(&part.config, &registry),
            };
        Ok(Self { request, registry, loaded: part, root })
    }

    /// The project with what is missing for its root to run among the diagnostics.
    pub fn complete(mut self) -> Self {
        if self.root.is_some() {
            self.request.fragment = false;
            self.loaded = load_anyway(&self.request, &Library, &self.registry);
        }
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
        self.root.ok_or_else(|| {
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
        fs::read_to_string(path)
            .with_context(|| format!("cannot read {path}"))
            .map_err(Failure::usage)
    };
    let texts: Vec<String> = paths.iter().map(read).collect::<Result<_, _>>()?;
    registry_of(paths.iter().map(String::as_str).zip(texts.iter().map(String::as_str)))
        .map_err(|error| Failure::usage(anyhow!(error)))
}

/// A run's folder stands for the configuration that the run wrote there.
fn file_of(path: &str) -> String {
    match fs::metadata(path).is_ok_and(|metadata| metadata.is_dir()) {
        true => format!("{}/config.gin", path.trim_end_matches('/')),
        false => path.to_string(),
    }
}

/// The command's root that the files bind or refer to.
pub fn inferred(config: &Config, registry: &Registry) -> Option<&'static Schema> {
    let root = ROOTS.into_iter().find(|root| config.mentioned.contains(root))?;
    registry.get(root)
}
