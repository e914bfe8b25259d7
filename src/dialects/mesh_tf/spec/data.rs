//! Data sets of t5, and the vocabularies that older files name.

use gimlet_gin::Configurable;

use crate::mesh_tf::values::Filenames;

/// Any source of batches.
#[derive(Clone, Debug, PartialEq, Configurable)]
pub enum DatasetFn {
    /// Batches to train on.
    Train(MeshTrainDatasetFn),
    /// Examples to evaluate.
    Eval(MeshEvalDatasetFn),
    /// Examples to predict.
    Inference(MeshInferenceDatasetFn),
    /// Lines of a file.
    Tsv(TsvDatasetFn),
}

/// Batches of a task or mixture to train on. Source: t5 `models/mesh_transformer.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(
    name = "t5.models.mesh_transformer.mesh_train_dataset_fn",
    ignored(
        sequence_length = "the run gives it",
        vocabulary = "the vocabularies are those of the task",
        dataset_split = "`run.dataset_split` gives it"
    )
)]
pub struct MeshTrainDatasetFn {
    /// Name of a task or mixture.
    pub mixture_or_task_name: String,
    /// Whether files and examples are shuffled.
    #[gin(default = true)]
    pub shuffle: bool,
    /// Seed of shuffling and of random preprocessors; None takes one from the clock.
    #[gin(default = None)]
    pub seed: Option<u64>,
    /// Whether tasks are read from their cache.
    #[gin(default = false)]
    pub use_cached: bool,
    /// Whether several examples share a row.
    #[gin(default = true)]
    pub pack: bool,
}

/// Examples of a task or mixture to evaluate. Source: t5 `models/mesh_transformer.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(
    name = "t5.models.mesh_transformer.mesh_eval_dataset_fn",
    ignored(
        sequence_length = "the run gives it",
        vocabulary = "the vocabularies are those of the task",
        dataset_split = "`run.dataset_split` gives it"
    )
)]
pub struct MeshEvalDatasetFn {
    /// Name of a task or mixture.
    pub mixture_or_task_name: String,
    /// Number of examples of each task; -1 and None are all.
    #[gin(default = Some(-1))]
    pub num_eval_examples: Option<i64>,
    /// Whether tasks are read from their cache.
    #[gin(default = false)]
    pub use_cached: bool,
    /// Whether several examples share a row.
    #[gin(default = false)]
    pub pack: bool,
    /// Whether examples are shuffled.
    #[gin(default = false)]
    pub shuffle_eval_examples: bool,
    /// Seed of shuffling.
    #[gin(default = None)]
    pub seed: Option<u64>,
}

/// Examples of a task or mixture for predictions. Source: t5 `models/mesh_transformer.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(
    name = "t5.models.mesh_transformer.mesh_inference_dataset_fn",
    ignored(
        sequence_length = "the run gives it",
        vocabulary = "the vocabularies are those of the task"
    )
)]
pub struct MeshInferenceDatasetFn {
    /// Name of a task or mixture.
    pub mixture_or_task_name: String,
    /// The split.
    #[gin(default = None)]
    pub dataset_split: Option<String>,
    /// Whether examples are shuffled.
    #[gin(default = false)]
    pub shuffle: bool,
    /// Seed of shuffling.
    #[gin(default = None)]
    pub seed: Option<u64>,
    /// Number of examples; -1 is all.
    #[gin(default = -1)]
    pub num_inference_examples: i64,
    /// Whether tasks are read from their cache.
    #[gin(default = false)]
    pub use_cached: bool,
    /// Tokens of targets that a model continues, for tasks without inputs.
    #[gin(default = None)]
    pub priming_sequence_length: Option<u64>,
}

/// Lines `inputs<TAB>targets` of a file. Source: t5 `models/mesh_transformer.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(
    name = "t5.models.mesh_transformer.tsv_dataset_fn",
    ignored(
        sequence_length = "the run gives it",
        vocabulary = "the run gives it",
        dataset_split = "the run gives it"
    )
)]
pub struct TsvDatasetFn {
    /// The file, or a list of files.
    pub filename: Filenames,
    /// Examples that are shuffled at once.
    #[gin(default = 10_000)]
    pub shuffle_buffer_size: u64,
}

/// The vocabularies of a run. Source: t5 `models/mesh_transformer.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(
    name = "t5.models.mesh_transformer.get_vocabulary",
    ignored(mixture_or_task_name = "the vocabularies are those of the task")
)]
pub struct GetVocabulary {}

/// The file of a vocabulary, in files of 2019. Source: t5 `models/mesh_transformer.py` before 2020.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(
    name = "t5.models.mesh_transformer.get_sentencepiece_model_path",
    ignored(mixture_or_task_name = "the vocabularies are those of the task")
)]
pub struct GetSentencepieceModelPath {}

/// The packing of several examples into a row. Source: mesh `transformer/dataset.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(
    name = "mesh_tensorflow.transformer.dataset.pack_dataset",
    ignored(dataset = "the run gives it", length = "the run gives it", keys = "the run gives it")
)]
pub struct PackDataset {
    /// Whether rows are packed with less padding.
    #[gin(default = false)]
    pub use_custom_ops: bool,
}

/// Packing or padding. Source: mesh `transformer/dataset.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(
    name = "mesh_tensorflow.transformer.dataset.pack_or_pad",
    ignored(
        dataset = "the run gives it",
        length = "the run gives it",
        pack = "the data set gives it",
        feature_keys = "the task gives it",
        ensure_eos = "the task gives it"
    )
)]
pub struct PackOrPad {}
