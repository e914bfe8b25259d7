//! The languages in which gin files are written, and the choice of a configuration's.

use std::cell::OnceCell;

use crate::dialects::{DIALECTS, Dialect};
use crate::gin::{Config, Diagnostic, Loaded, Registry, Request, Running, Source, load_anyway};

use super::configure::{bound_roots, dialect_registry, registry, running};

/// The language in which a configuration is written: that of T5X and SeqIO, or a dialect, with its place among others.
#[derive(Clone, Copy, Debug)]
pub struct Language(Option<(usize, &'static dyn Dialect)>);

/// The names of every language.
pub struct Registries {
    t5x: Registry,
    dialects: Vec<(&'static dyn Dialect, OnceCell<Registry>)>,
}

impl Language {
    /// Whether it is another project's.
    pub fn is_dialect(self) -> bool {
        self.0.is_some()
    }

    /// Returns the configurables that run, each in its scope; none if the files are a part of a configuration.
    pub fn running(self, config: &Config, registry: &Registry) -> Vec<Running> {
        if let Some((_, dialect)) = self.0 {
            return dialect.running(config);
        }
        match &bound_roots(config, registry)[..] {
            [] => Vec::new(),
            roots => running(roots, config),
        }
    }

    /// Returns the bound parts of a run that cannot be done, if nothing else is wrong with it.
    pub fn refused(self, loaded: &Loaded, registry: &Registry) -> Vec<Diagnostic> {
        self.0.map_or_else(Vec::new, |(_, dialect)| dialect.refused(loaded, registry))
    }
}

impl Registries {
    /// All languages that Gimlet knows.
    pub fn all() -> Self {
        Self::new(registry(), DIALECTS)
    }

    /// Another project's names alone.
    pub fn only(registry: Registry) -> Self {
        Self::new(registry, &[])
    }

    fn new(t5x: Registry, dialects: &[&'static dyn Dialect]) -> Self {
        let dialects = dialects.iter().map(|dialect| (*dialect, OnceCell::new())).collect();
        Self { t5x, dialects }
    }

    /// Returns the names of T5X and SeqIO, or those of `--schema`.
    pub fn t5x(&self) -> &Registry {
        &self.t5x
    }

    /// Loads a configuration in the language whose names it uses.
    pub fn load(&self, request: &Request, source: &dyn Source) -> (Loaded, Language) {
        let loaded = load_anyway(request, source, &self.t5x);
        if !loaded.incomplete {
            return (loaded, Language(None));
        }
        for (place, (dialect, registry)) in self.dialects.iter().enumerate() {
            let registry = registry.get_or_init(|| dialect_registry(*dialect));
            let mut other = load_anyway(&dialect.request(request), source, registry);
            if dialect.recognizes(&other.config) {
                dialect.tidy(&mut other);
                return (other, Language(Some((place, *dialect))));
            }
        }
        (loaded, Language(None))
    }

    /// Returns the names of a language that [`Self::load`] has chosen.
    pub fn of(&self, language: Language) -> &Registry {
        let dialect = language.0.and_then(|(place, _)| self.dialects[place].1.get());
        dialect.unwrap_or(&self.t5x)
    }

    /// Returns the names of that language alone.
    pub fn into_one(mut self, language: Language) -> Registry {
        let dialect = language.0.and_then(|(place, _)| self.dialects[place].1.take());
        dialect.unwrap_or(self.t5x)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gin::{Configurable, Modules};
    use crate::run::library::Library;

    /// The run of a project that does not exist.
    #[derive(Clone, Debug, PartialEq, Configurable)]
    #[gin(name = "other.project.run")]
    struct OtherRun {
        /// Updates.
        steps: usize,
    }

    #[derive(Debug)]
    struct Other;

    impl Dialect for Other {
        fn modules(&self) -> Modules {
            Modules::default()
        }

        fn with_configurables(&self, registry: Registry) -> Registry {
            registry.with::<OtherRun>()
        }

        fn request(&self, request: &Request) -> Request {
            request.clone()
        }

        fn recognizes(&self, config: &Config) -> bool {
            config.mentioned.contains("other.project.run")
        }

        fn tidy(&self, _: &mut Loaded) {}

        fn running(&self, _: &Config) -> Vec<Running> {
            vec![(String::new(), OtherRun::schema())]
        }

        fn refused(&self, _: &Loaded, _: &Registry) -> Vec<Diagnostic> {
            Vec::new()
        }
    }

    #[test]
    fn a_configuration_is_read_in_the_dialect_that_recognizes_it() {
        let registries = Registries::new(registry(), &[&Other, DIALECTS[0]]);
        let load = |binding: &str| {
            let bindings = vec![("--gin_bindings".to_string(), binding.to_string())];
            registries.load(&Request { bindings, ..Request::default() }, &Library)
        };
        let (loaded, language) = load("other.project.run.steps = 3");
        assert!(language.is_dialect() && loaded.diagnostics.is_empty(), "{:?}", loaded.diagnostics);
        let running = language.running(&loaded.config, registries.of(language));
        assert_eq!(running[0].1.name, OtherRun::schema().name);
        let (_, language) = load("mesh_tensorflow.transformer.utils.run.train_steps = 3");
        assert!(registries.of(language).get("mesh_tensorflow.transformer.utils.run").is_some());
        let (_, language) = load("seqio.Task.source = None");
        assert!(!language.is_dialect());
    }
}
