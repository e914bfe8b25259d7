//! The configuration of the model that is converted: a gin file or a `config.json` that flags name, or that which lies beside
//! the checkpoint.

use super::args::ConvertArgs;
use anyhow::anyhow;

use crate::checkpoint::{
    Adapter, HuggingFaceConfig, HuggingFaceOptions, PeftConfig, Shapes, TARGET, unheld,
};
use crate::export::state_vocabulary;
use crate::interactive::{Found, InteractiveModel};
use crate::models::parts::{LearnedRows, RowsKind, RowsPlace};
use crate::models::transformer::{LayerArrays, TransformerSpec};
use crate::models::{HUGGING_FACE, LoRA, Model};
use crate::run::checkpoint::open::{failure, storage_failure};
use crate::run::commands::ModelArgs;
use crate::run::configure::configure;
use crate::run::failure::Failure;
use crate::run::gin_flags::GinArgs;
use crate::run::library::Library;
use crate::session::check::UnfitSpec;
use crate::storage::Path;
use crate::telemetry::notice;

/// A binding for folders of transformers, which need not hold a vocabulary: neither arrays nor logits depend on it.
const ANY_VOCABULARY: &str = "VOCABULARY = @seqio.ByteVocabulary()";

fn is_json(file: &Path) -> bool {
    [HuggingFaceConfig::FILE, PeftConfig::FILE].contains(&file.file_name())
}

/// The folder of transformers that such a file names: its own, or that of an adapter's base model.
fn folder_of(file: &Path) -> Result<Path, Failure> {
    match file.file_name() {
        PeftConfig::FILE => {
            PeftConfig::of_folder(&file.folder()).and_then(|config| config.base()).map_err(failure)
        }
        _ => Ok(file.folder()),
    }
}

/// The files that say what the model is.
pub(super) struct Configuration {
    /// The folder of a `config.json`.
    pub folder: Option<Path>,
    /// Whether gin files or bindings say more.
    is_gin: bool,
}

impl Configuration {
    /// Finds the files for the checkpoint at a path.
    ///
    /// # Errors
    /// The path cannot be read.
    pub fn of(args: &ConvertArgs, from: &Path) -> Result<Self, Failure> {
        let found = Found::at(from)?.config;
        let mut folder = found.as_ref().filter(|it| is_json(it)).map(folder_of).transpose()?;
        let mut is_gin = found.is_some() && folder.is_none();
        for file in &args.gin.files.gin_file {
            let file = Path::parse(file).map_err(storage_failure)?;
            match is_json(&file) {
                true => folder = Some(folder_of(&file)?),
                false => is_gin = true,
            }
        }
        is_gin |= !args.gin.files.gin_bindings.is_empty();
        Ok(Self { folder, is_gin })
    }

    /// Whether nothing says what the model is.
    pub fn is_missing(&self) -> bool {
        self.folder.is_none() && !self.is_gin
    }
}

/// The vocabulary of a model that is evaluated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NamedVocabulary {
    /// The one of the configuration.
    Own,
    /// Any, for work that depends on none; folders of transformers need not hold one.
    Any,
}

/// Evaluates the gin of the model whose checkpoint is at a path: that beside it, then that of flags. Its vocabulary may be any.
///
/// # Errors
/// There is none, or mistakes in it.
pub(super) fn evaluated(gin: &GinArgs, checkpoint: &Path) -> Result<InteractiveModel, Failure> {
    model_at(gin, checkpoint, NamedVocabulary::Any)
}

/// Like [`evaluated`], with that vocabulary.
///
/// # Errors
/// The same as those of [`evaluated`]; its own vocabulary is missing.
pub fn model_at(
    gin: &GinArgs,
    checkpoint: &Path,
    vocabulary: NamedVocabulary,
) -> Result<InteractiveModel, Failure> {
    let mut gin = gin.clone();
    if gin.files.gin_file.is_empty() && gin.files.gin_bindings.is_empty() {
        // The tasks of a run, which may lie elsewhere, do not belong to its model.
        gin.files.skip_unknown.get_or_insert_default();
    }
    let files = gin.files.gin_file.iter().map(|file| Path::parse(file));
    let named = files.collect::<Result<Vec<Path>, _>>().map_err(storage_failure)?;
    let is_of_transformers = named.iter().chain(&Found::at(checkpoint)?.config).any(is_json);
    if is_of_transformers && vocabulary == NamedVocabulary::Any {
        gin.files.precede(Vec::new(), Some(("--checkpoint", ANY_VOCABULARY.to_string())));
    }
    let model = ModelArgs {
        gin,
        checkpoint: Some(checkpoint.to_string()),
        batch_size: None,
        dry_run: false,
    };
    Ok(configure::<InteractiveModel>(&*model.configuration()?, &Library, false)?.spec)
}

/// Returns the options for the formats of weights, of the model that is converted from a path.
///
/// # Errors
/// Mistakes in the configuration; a model that transformers have not.
pub(super) fn options(args: &ConvertArgs, from: &Path) -> Result<HuggingFaceOptions, Failure> {
    let configuration = Configuration::of(args, from)?;
    let mut options = HuggingFaceOptions::default();
    if configuration.is_gin {
        let model = evaluated(&args.gin, from)?.model;
        refuse_adapter(&model, args, from)?;
        options = model.hugging_face().map_err(UnfitSpec).map_err(Failure::usage)?;
        let predictions = model.predicts();
        let states = configuration.folder.is_none() && args.model.vocabulary.is_none();
        if let Some(predictions) = predictions.filter(|_| states) {
            state_vocabulary(&predictions, &mut options).map_err(storage_failure)?;
        }
    }
    options.folder = configuration.folder.clone();
    if let Some(vocabulary) = options.vocabulary.clone() {
        // The weights are more important than a vocabulary that may lie in a bucket.
        if let Err(error) = vocabulary.read() {
            notice(&format!(
                "no tokenizer is written: {error}; name the model's vocabulary by --vocabulary=SPM, or its folder by \
                 --path_map"
            ));
            options.vocabulary = None;
        }
    }
    if configuration.is_missing() {
        notice(&format!(
            "`{from}` has no config.gin and no config.json beside it: what its arrays do not show is taken from the usual \
             models, so of a T5 gated-gelu for two input projections and relu for one, of a BERT gelu; give \
             --gin_file=FILE if the model has others"
        ));
    }
    args.over(options)
}

/// The adapter of a model.
pub(super) struct OwnAdapter {
    pub adapter: Adapter,
    /// The kind of its base model, by PEFT's names.
    pub task_type: Option<&'static str>,
    /// The `model_type` of its base model, if arrays do not show it.
    pub model_type: Option<String>,
    /// The shapes of the model's parameters in arrays of separate layers and kernels.
    pub separate: Shapes,
    /// Those of the base model's parameters in its own arrays.
    pub base: Shapes,
}

/// Returns the adapter of the model that is converted from a path.
///
/// # Errors
/// Mistakes in the configuration; the model has no adapter.
pub(super) fn adapter(args: &ConvertArgs, from: &Path) -> Result<OwnAdapter, Failure> {
    let model = evaluated(&args.gin, from)?.model;
    let spec = model.transformer();
    let refused = |reason: &str| Err(Failure::usage(anyhow!("the model of `{from}` {reason}")));
    let adapter = match (model.lora(), prompt(&spec)) {
        (Some(_), Some(_)) if !args.merge => {
            return refused(
                "has both additions of LoRA and a soft prompt, and an adapter of PEFT is one of them",
            );
        }
        (Some(LoRA { rank, alpha, dropout_rate, .. }), _) => {
            Adapter::Lora { rank: *rank, alpha: *alpha, dropout_rate: *dropout_rate }
        }
        (None, Some(_)) if args.merge => {
            return refused(
                "has a soft prompt, which no kernel can hold: --to peft writes it alone",
            );
        }
        (None, Some(rows)) if rows.place != RowsPlace::Before => {
            return refused(
                "has a soft prompt among or after its inputs, and PEFT's come before them",
            );
        }
        (None, Some(rows)) if rows.tasks.is_some() => {
            return refused(
                "has soft prompts of several tasks, and PEFT's is one for all inputs: convert --to t5x",
            );
        }
        (None, Some(rows)) if rows.is_causal => {
            return refused(
                "has a soft prompt whose rows see only those before them, and PEFT's see all",
            );
        }
        (None, Some(_)) if spec.stacks().any(|stack| stack.layer_rows.is_some()) => {
            return refused(
                "has soft prompts in layers too, and PEFT's is before the inputs alone: convert --to t5x",
            );
        }
        (None, Some(rows)) => Adapter::Prompt { length: rows.count },
        (None, None) => {
            return refused("has no adapter, expected one with gimlet.LoRA or a soft prompt");
        }
    };
    Ok(OwnAdapter {
        adapter,
        task_type: spec.encoder.is_some().then_some("SEQ_2_SEQ_LM"),
        model_type: model.hugging_face().ok().and_then(|options| options.model_type),
        base: shapes(&spec.clone().without_lora()),
        separate: shapes(&TransformerSpec { layer_arrays: LayerArrays::Joined, ..spec }),
    })
}

/// The shapes of a network's parameters, as they are named in checkpoints.
fn shapes(spec: &TransformerSpec) -> Shapes {
    let tree = spec.param_tree().into_iter();
    tree.map(|param| (format!("{TARGET}{}", param.name), param.shape)).collect()
}

/// The soft prompt of a network, if it has one.
fn prompt(spec: &TransformerSpec) -> Option<&LearnedRows> {
    spec.learned_rows.as_ref().filter(|rows| rows.kind == RowsKind::Prompt)
}

/// Refuses a model with an adapter that is not merged, for formats of transformers.
fn refuse_adapter(model: &Model, args: &ConvertArgs, from: &Path) -> Result<(), Failure> {
    let (what, remedy) = match (model.lora(), prompt(&model.transformer())) {
        (Some(_), _) if !args.merge => (
            "additions of LoRA",
            "--merge puts them into its kernels, and --to peft writes them alone",
        ),
        (_, Some(_)) => ("a soft prompt", "--to peft writes it alone"),
        _ => return Ok(()),
    };
    Err(Failure::usage(anyhow!(
        "the model of `{from}` has {what}, which a model of transformers has not: {remedy}"
    )))
}

/// Says what a folder of transformers tells about its model, and a target without a `config.json` does not hold.
///
/// # Errors
/// Its files cannot be read.
pub(super) fn tell_unheld(args: &ConvertArgs, from: &Path, to: &Path) -> Result<(), Failure> {
    let Some(folder) = Configuration::of(args, from)?.folder else { return Ok(()) };
    let unheld = unheld(&folder, HUGGING_FACE).map_err(failure)?;
    if !unheld.is_empty() {
        notice(&format!(
            "`{to}` does not hold the model's configuration ({}): give --gin_file={} to the commands that read it",
            unheld.join(", "),
            folder.join(HuggingFaceConfig::FILE)
        ));
    }
    Ok(())
}
