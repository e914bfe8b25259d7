//! The root of an export: T5X's `export_lib.save` with all its parameters.

use std::collections::BTreeMap;

use super::functions::{
    CreateBatchPolymorphicShapes, CreateInferenceFunction, CreatePostprocessor, CreatePreprocessor,
    ExportPostprocessor, ExportPreprocessor, ExportedModule, InferenceFunction, PolymorphicShapes,
    WarmupWriter, WriteWarmupExamples,
};
use crate::checkpoint::RestoreCheckpointConfig;
use crate::data::Feature;
use crate::gin::{Configurable, Evaluator, FromGin, Ref, Reported, Value, ValueKind};
use crate::models::Model;
use crate::partition::Partitioner;

/// Writes a model as a folder that transformers load: weights, configuration, tokenizer, decoding, and warm-up
/// examples. T5X writes a TensorFlow SavedModel. Source: T5X `export_lib.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(
    name = "t5x.export_lib.save",
    ignored(
        create_decoding_state_callback_fn = "no SavedModel is written",
        validation_examples = "no SavedModel is written",
        native_lowering = "nothing is compiled",
        native_lowering_platforms = "nothing is compiled",
        enable_xla = "nothing is compiled",
        decode_outputs = "the tokenizer of transformers decodes",
        trailing_shapes = "nothing is compiled",
        output_vocab_feature_name = "the tokenizer is that of the model's vocabulary"
    )
)]
pub struct Save {
    /// The model: module, vocabularies and decoding.
    pub model: Model,
    /// 'predict' or 'score'; the folder serves both.
    pub inference_mode: InferenceMode,
    /// The checkpoint.
    pub restore_checkpoint_cfg: RestoreCheckpointConfig,
    /// Without effect: no SavedModel is written.
    pub exportable_module_cls: Ref<ExportedModule>,
    /// Without effect: the tokenizer is that of the model's vocabulary.
    #[gin(default = Ref(ExportPreprocessor::Plain(CreatePreprocessor {})))]
    pub create_preprocessor_fn: Ref<ExportPreprocessor>,
    /// Without effect: no SavedModel is written.
    #[gin(default = Ref(InferenceFunction::Own(CreateInferenceFunction {})))]
    pub create_inference_function_fn: Ref<InferenceFunction>,
    /// Without effect: the tokenizer of transformers decodes.
    #[gin(default = Ref(ExportPostprocessor::Own(CreatePostprocessor {})))]
    pub create_postprocessor_fn: Ref<ExportPostprocessor>,
    /// Without effect: the folder holds the whole model.
    pub partitioner: Option<Partitioner>,
    /// The features 'inputs' and 'targets', whose vocabularies must be the model's.
    pub output_features: Option<BTreeMap<String, Feature>>,
    /// Feature to its length; that of 'targets' limits decoded sequences.
    pub task_feature_lengths: BTreeMap<String, usize>,
    /// Number of warm-up examples in a request; None writes those given.
    pub batch_size: Option<usize>,
    /// The folder, or a dict with the folder of 'cpu'.
    pub output_dir: OutputDir,
    /// Name of the model in requests.
    pub model_name: String,
    /// Inputs for a server to begin with: texts, or token ids with `tokenized_inputs`.
    #[gin(default = None)]
    pub warmup_examples: Option<Vec<WarmupExample>>,
    /// Whether clients send token ids; then no tokenizer is written.
    #[gin(default = false)]
    pub tokenized_inputs: bool,
    /// Method of writing warm-up examples.
    #[gin(default = Ref(WarmupWriter::Own(WriteWarmupExamples { input_tensor_name: "text_batch".to_string() })))]
    pub write_warmup_example_fn: Ref<WarmupWriter>,
    /// Name of a task whose features are exported, instead of `output_features`.
    #[gin(default = None)]
    pub mixture_or_task_name: Option<String>,
    /// Name of the function in requests.
    #[gin(default = "serving_default".to_string())]
    pub signature_name: String,
    /// Without effect: nothing is compiled.
    #[gin(default = Ref(PolymorphicShapes::Own(CreateBatchPolymorphicShapes {})))]
    pub create_polymorphic_shapes_fn: Ref<PolymorphicShapes>,
}

/// The purpose of an exported program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Configurable)]
pub enum InferenceMode {
    /// Decoded sequences.
    Predict,
    /// Scores of targets.
    Score,
}

/// The folder of an export.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutputDir(
    /// Its path.
    pub String,
);

impl FromGin for OutputDir {
    fn expected() -> String {
        "a str or a dict with the key 'cpu'".to_string()
    }

    fn from_gin(value: &Value, cx: &mut Evaluator<'_>) -> Result<Self, Reported> {
        match &value.kind {
            ValueKind::Str(path) => Ok(Self(path.clone())),
            ValueKind::Dict(_) => {
                let folders: BTreeMap<String, String> = cx.read(value)?;
                let folder = folders.get("cpu").cloned();
                folder.map(Self).ok_or_else(|| cx.mismatch(value, &Self::expected()))
            }
            _ => Err(cx.mismatch(value, &Self::expected())),
        }
    }
}

/// An input for a server to begin with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WarmupExample {
    /// A text.
    Text(String),
    /// Token ids.
    Tokens(Vec<i64>),
}

impl FromGin for WarmupExample {
    fn expected() -> String {
        "a str or a list of ints".to_string()
    }

    fn from_gin(value: &Value, cx: &mut Evaluator<'_>) -> Result<Self, Reported> {
        match &value.kind {
            ValueKind::Str(text) => Ok(Self::Text(text.clone())),
            ValueKind::List(_) | ValueKind::Tuple(_) => cx.read(value).map(Self::Tokens),
            _ => Err(cx.mismatch(value, &Self::expected())),
        }
    }
}
