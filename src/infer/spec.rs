//! The root of an inference: T5X's `infer` with all its parameters.

use crate::checkpoint::RestoreCheckpointConfig;
use crate::data::DatasetConfig;
use crate::gin::{Configurable, Ref};
use crate::models::Model;
use crate::partition::Partitioner;
use crate::session::spec::{SummarizeConfig, SummarizeGinConfig};

/// Writes a model's predictions or scores for the examples of a task or mixture. Source: T5X `infer.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(
    name = "t5x.infer.infer",
    ignored(
        train_state_initializer_cls = "parameters are read from checkpoints into the model's tree",
        verify_matching_vocabs_fn = "vocabularies of task and model are always compared",
        keep_aux_as_numpy = "numbers are written with the same digits either way",
        use_orbax = "the format of a checkpoint is recognized"
    )
)]
pub struct Infer {
    /// The outputs: 'predict' decodes the inputs, 'predict_with_aux' adds the scores of the decoded
    /// sequences, 'score' computes the log-likelihood of the targets.
    pub mode: Mode,
    /// The model: module, vocabularies and decoding. Its optimizer has no effect.
    pub model: Model,
    /// The examples, which are read in their order, once each.
    pub dataset_cfg: DatasetConfig,
    /// The checkpoints; only their parameters are read, never the optimizer's state.
    pub restore_checkpoint_cfg: RestoreCheckpointConfig,
    /// Partitioning of the model over devices.
    pub partitioner: Partitioner,
    /// Folder of the results and the configuration.
    pub output_dir: String,
    /// Number of batches after which results are safe from a failure: a chunk.
    pub checkpoint_period: usize,
    /// The part of the examples that this run reads, below `num_shards`.
    #[gin(default = 0)]
    pub shard_id: usize,
    /// Number of parts into which several runs divide the examples.
    #[gin(default = 1)]
    pub num_shards: usize,
    /// Whether the chunks end as one file.
    #[gin(default = true)]
    pub merge_chunked_results: bool,
    /// Method of writing the results of a chunk.
    #[gin(default = Ref(WriteFn::Inferences(WriteInferencesToFile::default())))]
    pub write_fn: Ref<WriteFn>,
    /// Whether the position in the examples is saved with each chunk; otherwise a continued run reads
    /// the examples of finished chunks again, without using them.
    #[gin(default = true)]
    pub checkpoint_ds_iter: bool,
    /// Seed of parameters that a checkpoint does not have; `fallback_to_scratch` needs one.
    #[gin(default = None)]
    pub fallback_init_rng: Option<i64>,
    /// Method of joining the chunks.
    #[gin(default = Ref(MergeFn::Chunks(MergeChunksToFile {})))]
    pub merge_fn: Ref<MergeFn>,
    /// Method of writing the configuration.
    #[gin(default = Ref(SummarizeConfig::Gin(SummarizeGinConfig {})))]
    pub summarize_config_fn: Ref<SummarizeConfig>,
    /// The feature of the task whose vocabulary decodes predictions.
    #[gin(default = "targets".to_string())]
    pub output_vocab_feature_name: String,
    /// Ending of the names of results.
    #[gin(default = "jsonl".to_string())]
    pub file_extension: String,
}

/// The outputs of an inference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Configurable)]
pub enum Mode {
    /// Decoded sequences.
    Predict,
    /// Decoded sequences with their scores.
    PredictWithAux,
    /// Log-likelihoods of the targets.
    Score,
}

impl Mode {
    /// Returns the name, as gin and the names of results have it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Predict => "predict",
            Self::PredictWithAux => "predict_with_aux",
            Self::Score => "score",
        }
    }
}

/// The method of writing results.
#[derive(Clone, Debug, PartialEq, Configurable)]
pub enum WriteFn {
    /// T5X's own.
    Inferences(WriteInferencesToFile),
}

/// Writes a line of JSON for each example: chosen features, and the model's outputs. Source: T5X `infer.py`.
#[derive(Clone, Debug, Default, PartialEq, Configurable)]
#[gin(
    name = "t5x.infer.write_inferences_to_file",
    ignored(
        path = "the run gives it",
        inferences = "the run gives it",
        task_ds = "the run gives it",
        mode = "the run gives it",
        vocabulary = "the run gives it from its task",
        json_encoder_cls = "values are written as SeqIO's TensorAndNumpyEncoder writes them"
    )
)]
pub struct WriteInferencesToFile {
    /// Writes all features of an example, token ids too, instead of the texts `NAME_pretokenized`.
    #[gin(default = false)]
    pub include_all_inputs: bool,
    /// The features to write, each with its text `NAME_pretokenized`, instead of all texts.
    #[gin(default = None)]
    pub input_fields_to_include: Option<Vec<String>>,
    /// Adds the token ids of a prediction, up to the first padding.
    #[gin(default = false)]
    pub output_ids: bool,
}

/// The method of joining chunks.
#[derive(Clone, Debug, PartialEq, Configurable)]
pub enum MergeFn {
    /// T5X's own.
    Chunks(MergeChunksToFile),
}

/// Joins the files of all chunks to one. Source: T5X `infer.py`.
#[derive(Clone, Debug, Default, PartialEq, Configurable)]
#[gin(
    name = "t5x.infer.merge_chunks_to_file",
    ignored(
        output_dir = "the run gives it",
        output_fname = "the run gives it",
        tmp_dir = "the run gives it",
        step = "the run gives it"
    )
)]
pub struct MergeChunksToFile {}
