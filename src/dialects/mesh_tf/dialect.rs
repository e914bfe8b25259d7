//! Mesh TensorFlow's dialect behind the interface of all.

use super::read::{explain, is_mesh_tf, read, running, without_effect};
use super::spec::Run;
use super::translate::{Given, translate};
use super::{GIN_FOLDER, MODULE, MODULES, with_configurables, with_deprecated};
use crate::Dialect;
use gimlet_gin::{Config, Configurable, Diagnostic, Loaded, Modules, Registry, Request, Running};

/// Mesh TensorFlow and t5.
#[derive(Debug)]
pub struct MeshTf;

impl Dialect for MeshTf {
    fn modules(&self) -> Modules {
        MODULES
    }

    fn with_configurables(&self, registry: Registry) -> Registry {
        with_configurables(registry)
    }

    /// Adds t5's folder and its list of names to skip. A run that was printed has Mesh TensorFlow's defaults already, so they are
    /// not read here.
    fn request(&self, request: &Request) -> Request {
        // t5's program imports its mixtures before it reads any file.
        let import = ("--module_import".to_string(), format!("import {MODULE}"));
        let folder = [GIN_FOLDER.to_string()].into_iter();
        Request {
            bindings: [import].into_iter().chain(request.bindings.iter().cloned()).collect(),
            search_paths: folder.chain(request.search_paths.iter().cloned()).collect(),
            skip_unknown: with_deprecated(&request.skip_unknown),
            ..request.clone()
        }
    }

    fn recognizes(&self, config: &Config) -> bool {
        is_mesh_tf(config)
    }

    fn tidy(&self, loaded: &mut Loaded) {
        without_effect(loaded);
        explain(&mut loaded.diagnostics);
    }

    fn running(&self, config: &Config) -> Vec<Running> {
        if binds_run(config) { running(config) } else { Vec::new() }
    }

    fn refused(&self, loaded: &Loaded, registry: &Registry) -> Vec<Diagnostic> {
        if loaded.incomplete || !binds_run(&loaded.config) {
            return Vec::new();
        }
        let given = Given { model_dir: "MODEL_DIR".to_string(), ..Given::default() };
        let translated =
            read(loaded, registry).and_then(|meaning| translate(&meaning, loaded, &given));
        match translated {
            Ok(translation) => translation.warnings,
            Err(mistakes) => mistakes,
        }
    }
}

/// Whether files bind a run beside Mesh TensorFlow's own defaults.
fn binds_run(config: &Config) -> bool {
    config.bindings.keys().any(|(_, name)| *name == Run::schema().name)
}
