//! The dialects of gin files, and the choice of the one in which a configuration is written.

use crate::dialects::mesh_tf;
use crate::gin::{
    Config, Diagnostic, Loaded, Registry, Request, Running, SkipUnknown, Source, load_anyway,
};

use super::configure::{bound_roots, mesh_tf_registry, running};

/// The names that a configuration uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// Those of T5X and SeqIO.
    T5x,
    /// Those of Mesh TensorFlow and t5.
    MeshTf,
}

impl Dialect {
    /// Returns the configurables that run, each in its scope; none if the files are a part of a configuration.
    pub fn running(self, config: &Config, registry: &Registry) -> Vec<Running> {
        match self {
            Self::T5x => match &bound_roots(config, registry)[..] {
                [] => Vec::new(),
                roots => running(roots, config),
            },
            Self::MeshTf if binds_run(config) => mesh_tf::running(config),
            Self::MeshTf => Vec::new(),
        }
    }

    /// Returns what a run cannot do that is bound, if nothing else is wrong with it.
    pub fn refused(self, loaded: &Loaded, registry: &Registry) -> Vec<Diagnostic> {
        if self == Self::T5x || loaded.incomplete || !binds_run(&loaded.config) {
            return Vec::new();
        }
        let meaning = match mesh_tf::read(loaded, registry) {
            Ok(meaning) => meaning,
            Err(mistakes) => return mistakes,
        };
        let given = mesh_tf::Given { model_dir: "MODEL_DIR".to_string(), ..Default::default() };
        match mesh_tf::translate(&meaning, loaded, &given) {
            Ok(translation) => translation.warnings,
            Err(mistakes) => mistakes,
        }
    }
}

/// Whether files bind a run of Mesh TensorFlow beside its own defaults.
fn binds_run(config: &Config) -> bool {
    let run = "mesh_tensorflow.transformer.utils.run";
    config.bindings.keys().any(|(_, name)| *name == run)
}

/// Loads a configuration in the dialect whose names it uses. `t5x` has T5X's.
pub fn load_in_dialect(
    request: &Request,
    source: &dyn Source,
    t5x: &Registry,
) -> (Loaded, Dialect) {
    let loaded = load_anyway(request, source, t5x);
    if !loaded.incomplete {
        return (loaded, Dialect::T5x);
    }
    let registry = mesh_tf_registry();
    let request = mesh_tf_request(request);
    let mut other = load_anyway(&request, source, &registry);
    match mesh_tf::is_mesh_tf(&other.config) {
        true => {
            mesh_tf::without_effect(&mut other);
            mesh_tf::explain(&mut other.diagnostics);
            (other, Dialect::MeshTf)
        }
        false => (loaded, Dialect::T5x),
    }
}

/// Returns the request as t5's program makes it, with its folder and its list of names to skip. A run that was printed
/// has Mesh TensorFlow's defaults already, so they are not read here.
fn mesh_tf_request(request: &Request) -> Request {
    let folder = [mesh_tf::GIN_FOLDER.to_string()];
    let skip_unknown = match &request.skip_unknown {
        SkipUnknown::All => SkipUnknown::All,
        SkipUnknown::No => SkipUnknown::Named(mesh_tf::DEPRECATED.map(str::to_string).to_vec()),
        SkipUnknown::Named(names) => {
            let own = mesh_tf::DEPRECATED.map(str::to_string);
            SkipUnknown::Named([&own[..], names].concat())
        }
    };
    // t5's program imports its mixtures before it reads any file.
    let import = ("--module_import".to_string(), format!("import {}", mesh_tf::MODULE));
    let bindings = [import].into_iter().chain(request.bindings.iter().cloned()).collect();
    Request {
        bindings,
        search_paths: folder.into_iter().chain(request.search_paths.iter().cloned()).collect(),
        skip_unknown,
        ..request.clone()
    }
}
