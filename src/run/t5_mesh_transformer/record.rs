//! The files that t5's program writes beside those of the run: the command line, and the configuration of a training
//! in Mesh TensorFlow's terms, which a later evaluation reads.

use std::env;

use crate::dialects::mesh_tf::{Meaning, running};
use crate::gin::{Loaded, Registry, operative_config_str, reach};
use crate::run::record::{Record, RecordFile};

use super::vocabularies::MIXTURE_NAME;

/// Makes the record of a run.
pub(super) fn record(
    model_dir: &str,
    meaning: &Meaning,
    loaded: &Loaded,
    registry: &Registry,
) -> Record {
    let command = env::args().collect::<Vec<String>>().join(" ");
    let file = |name: &str, text, keeps_earlier| {
        let name = name.to_string();
        RecordFile { name, text, keeps_earlier }
    };
    let mut files = vec![file("commands/command", command, true)];
    if meaning.run.mode == "train" {
        files.push(file("operative_config.gin", operative(loaded, registry), false));
    }
    Record { folder: model_dir.to_string(), files }
}

/// Prints the configuration that a training uses, bindings of its tasks included.
fn operative(loaded: &Loaded, registry: &Registry) -> String {
    let config = &loaded.config;
    let scope = |path: &str| -> Vec<String> {
        path.split('/').filter(|part| !part.is_empty()).map(str::to_string).collect()
    };
    let roots = running(config).into_iter().map(|(path, schema)| (scope(&path), schema));
    let open = config.bindings.keys().filter_map(|(path, name)| {
        Some((scope(path), registry.get(name).filter(|schema| schema.open)?))
    });
    let reached = reach(config, registry, roots.chain(open));
    let text = operative_config_str(config, &reached, registry);
    match config.macros.get(MIXTURE_NAME) {
        Some(bound) if !text.contains(MIXTURE_NAME) => {
            format!("{text}\n# The task of the vocabularies.\n{MIXTURE_NAME} = {}\n", bound.value)
        }
        _ => text,
    }
}
