//! The interface of a dialect to all that reads gin files: commands, the gin tools and the language server.

use std::fmt::Debug;

use gimlet_gin::{Config, Diagnostic, Loaded, Modules, Registry, Request, Running};

/// The gin files of another project.
pub trait Dialect: Debug + Sync {
    /// Packages that its files import.
    fn modules(&self) -> Modules;

    /// Adds its configurables to those of tasks.
    fn with_configurables(&self, registry: Registry) -> Registry;

    /// Returns a request as the project's own program makes it of these files.
    fn request(&self, request: &Request) -> Request;

    /// Whether a configuration that was loaded with the dialect's names is written in it.
    fn recognizes(&self, config: &Config) -> bool;

    /// Removes bindings that the project's own program ignores, and adds remedies to mistakes.
    fn tidy(&self, loaded: &mut Loaded);

    /// Returns the configurables that a run calls, the main one first; none if the files are a part of a configuration.
    fn running(&self, config: &Config) -> Vec<Running>;

    /// Returns the parts of a run that cannot be translated, or that its translation leaves out.
    fn refused(&self, loaded: &Loaded, registry: &Registry) -> Vec<Diagnostic>;
}
