//! The files that t5's program writes beside those of the run: the command line, and the configuration of a training
//! in Mesh TensorFlow's terms, which a later evaluation reads.

use std::env;

use crate::dialects::mesh_tf::{Meaning, running};
use crate::gin::{Loaded, Registry, operative_config_str, reach};
use crate::storage::Path;
use crate::telemetry;

use super::T5MeshTransformerArgs;
use super::vocabularies::MIXTURE_NAME;
use crate::run::failure::Failure;

/// The texts to write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The folder of the run.
    pub model_dir: String,
    /// The command line.
    pub command: String,
    /// The values that a training uses, with defaults.
    pub operative_config: Option<String>,
}

impl Record {
    /// Makes the texts of a run.
    pub fn new(
        args: &T5MeshTransformerArgs,
        meaning: &Meaning,
        loaded: &Loaded,
        registry: &Registry,
    ) -> Self {
        let words: Vec<String> = env::args().collect();
        let operative_config = (meaning.run.mode == "train").then(|| operative(loaded, registry));
        Self { model_dir: args.model_dir.clone(), command: words.join(" "), operative_config }
    }

    /// Writes them. A folder that cannot be written is only mentioned, as t5 does: the run itself will report it.
    ///
    /// # Errors
    /// A path that is not valid.
    pub fn write(&self) -> Result<(), Failure> {
        let model_dir = Path::parse(&self.model_dir).map_err(Failure::usage)?;
        let commands = model_dir.join("commands");
        let written = (|| {
            commands.create_dir_all()?;
            let names = (1..).map(|number| format!("command.{number}"));
            for name in ["command".to_string()].into_iter().chain(names) {
                let file = commands.join(&name);
                if !file.exists()? {
                    file.write_atomic(self.command.as_bytes())?;
                    break;
                }
            }
            match &self.operative_config {
                Some(text) => model_dir.join("operative_config.gin").write_atomic(text.as_bytes()),
                None => Ok(()),
            }
        })();
        if let Err(error) = written {
            telemetry::notice(&format!("the command line is not written: {error}"));
        }
        Ok(())
    }
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
