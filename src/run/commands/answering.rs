//! The parts that the commands that answer texts share: flags of the model, its configuration, check and dry run.

use std::borrow::Cow;
use std::fmt::Write;

use anyhow::anyhow;
use clap::Args;

use crate::checkpoint::{chosen, index_of};
use crate::interactive::{FillEncoder, Found, InteractiveModel};
use crate::models::open;
use crate::partition::{LocalDevice, Mesh, Process};
use crate::run::configure::map_paths;
use crate::run::failure::Failure;
use crate::run::gin_flags::GinArgs;
use crate::run::root::{PlannedRun, Root};
use crate::session::check::{UnfitSpec, unfit};
use crate::session::error::SessionError;
use crate::session::restored_params::RestoredParams;
use crate::storage::Path;
use crate::telemetry;

use super::summary::{describe_devices, describe_model, describe_weights};

/// The file of the library that is loaded before all others.
const PRESET: &str = "t5x/configs/runs/interactive_model.gin";

/// Flags of the commands that answer the lines of a file, and of the model.
#[derive(Args, Debug)]
pub struct LinesArgs {
    /// A file with a text in each line, or with JSON objects that have `inputs` and, to be scored, `targets`; in any
    /// storage. Without a file and without texts, the lines of standard input.
    #[arg(long = "file", value_name = "FILE", conflicts_with = "texts")]
    pub file: Option<String>,
    /// Print a JSON object for each text, with its scores or probabilities.
    #[arg(long = "json")]
    pub json: bool,
    /// The model.
    #[command(flatten)]
    pub model: ModelArgs,
}

/// Flags that name a model.
#[derive(Args, Debug)]
pub struct ModelArgs {
    /// The configuration. A run's own config.gin, or a config.json of Hugging Face's, precedes it.
    #[command(flatten)]
    pub gin: GinArgs,
    /// The model: a MODEL_DIR or one of its checkpoints, also as MODEL_DIR:best, :last or :STEP, a folder of Hugging Face's transformers, or a checkpoint of
    /// any other format with a gin file that defines MODEL.
    #[arg(long = "checkpoint", value_name = "PATH")]
    pub checkpoint: Option<String>,
    /// Greatest number of texts that are decoded at once.
    #[arg(long = "batch_size", value_name = "N")]
    pub batch_size: Option<usize>,
    /// Resolve everything, print the model and its checkpoint, and stop.
    #[arg(long = "dry_run")]
    pub dry_run: bool,
}

impl ModelArgs {
    /// Returns the gin files of the model before those of the flags.
    ///
    /// # Errors
    /// No model is named.
    pub fn configuration(&self) -> Result<Cow<'_, GinArgs>, Failure> {
        let mut gin = self.gin.clone();
        let mut files = vec![PRESET.to_string()];
        let mut checkpoint = None;
        match &self.checkpoint {
            None if gin.files.gin_file.is_empty() => {
                return Err(Failure::Usage(anyhow!(
                    "no model is named, expected --checkpoint=PATH: a MODEL_DIR or one of its checkpoints, or a \
                     folder of Hugging Face's"
                )));
            }
            None => {}
            Some(path) => {
                map_paths(&self.gin.path_map)?;
                let found = find(path)?;
                if found.config.is_none() && gin.files.gin_file.is_empty() {
                    return Err(Failure::Usage(anyhow!(
                        "the model of `{path}` is not known: there is no config.gin of a run in it or beside it and \
                         no config.json of Hugging Face's, expected one of them or a gin file that defines MODEL: \
                         give --gin_file=FILE"
                    )));
                }
                files.extend(found.config.map(|config| config.to_string()));
                let text =
                    serde_json::to_string(found.checkpoint.as_str()).expect("a text becomes JSON");
                checkpoint = Some(("--checkpoint", format!("CHECKPOINT_PATH = {text}")));
            }
        }
        gin.files.precede(files, checkpoint);
        if let Some(size) = self.batch_size {
            gin.files.bind(
                "--batch_size",
                &format!("interactive_model.InteractiveModel.batch_size = {size}"),
            );
        }
        Ok(Cow::Owned(gin))
    }
}

fn find(path: &str) -> Result<Found, Failure> {
    let named = Path::parse(path).map_err(Failure::usage)?;
    let path = chosen(&named)?;
    let exists = path.exists().and_then(|exists| Ok(exists || index_of(&path).exists()?));
    if !exists.map_err(Failure::world)? {
        // The error names the path and, if there are some, similar ones.
        open(&path)?;
    }
    let found = Found::at(&path)?;
    if found.checkpoint != named {
        telemetry::notice_once(&format!("taking {}", found.checkpoint));
    }
    Ok(found)
}

impl Root for InteractiveModel {
    fn check(&self) -> Result<(), UnfitSpec> {
        self.check()
    }

    fn mesh(&self, process: Process, device: LocalDevice) -> Result<Mesh, UnfitSpec> {
        match process.count {
            1 => Ok(self.mesh(process, device)),
            count => unfit(format!(
                "there are {count} processes, expected 1: start a command for each device, each with a part of the texts"
            )),
        }
    }

    fn dry_run(&self, planned: &PlannedRun<'_>) -> Result<String, Failure> {
        let PlannedRun { mesh, .. } = *planned;
        let path = Path::parse(&self.checkpoint_path).map_err(Failure::usage)?;
        let config = self.restore_config();
        RestoredParams::new(&self.model, &config).check(&path)?;
        let mut out = String::new();
        let _ = writeln!(out, "checkpoint   {path}");
        describe_model(&self.model, &mut out);
        let _ = match self.model.fills() {
            Some(fills) => writeln!(out, "lengths      {} tokens of a text", fills.max_tokens),
            None => writeln!(
                out,
                "lengths      {} tokens of inputs, {} of targets",
                self.inputs_length(),
                self.targets_length()
            ),
        };
        describe_weights(&self.model, &mut out);
        describe_devices(mesh, &mut out);
        Ok(out)
    }
}

/// Finds a model that answers no texts.
///
/// # Errors
/// It makes no predictions.
pub(super) fn predicts(spec: &InteractiveModel) -> Result<(), SessionError> {
    Ok(spec.model.prediction_spec().map(drop)?)
}

/// Finds a model that restores no masked tokens, or has no pieces for them.
///
/// # Errors
/// Those of [`FillEncoder::new`].
pub(super) fn fills(spec: &InteractiveModel) -> Result<(), SessionError> {
    FillEncoder::new(&spec.model).map(drop)
}

/// Finds a model that does neither.
///
/// # Errors
/// Those of both.
pub(super) fn predicts_or_fills(spec: &InteractiveModel) -> Result<(), SessionError> {
    match spec.model.fills() {
        Some(_) => fills(spec),
        None => predicts(spec),
    }
}

/// Implements [`RootCommand`](super::root_command::RootCommand) for flags, of which a part is the model's; `$suits` refuses
/// models that do not fit the command.
macro_rules! answers {
    ($flags:ty, $($model:ident).+, $suits:ident, $check:expr) => {
        impl super::root_command::RootCommand for $flags {
            type Spec = crate::interactive::InteractiveModel;

            fn gin(&self) -> Result<std::borrow::Cow<'_, crate::run::gin_flags::GinArgs>, Failure> {
                let check: fn(&Self) -> Result<(), Failure> = $check;
                check(self)?;
                self.$($model).+.configuration()
            }

            fn suits(&self, spec: &Self::Spec) -> Result<(), crate::session::error::SessionError> {
                $suits(spec)
            }

            fn is_shared(&self) -> bool {
                false
            }

            fn is_dry_run(&self) -> bool {
                self.$($model).+.dry_run
            }
        }
    };
}

pub(super) use answers;
