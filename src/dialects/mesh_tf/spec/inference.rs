//! Predictions and scores in files, and the checkpoints that they are made with.

use gimlet_gin::{Configurable, Ref};

use super::data::DatasetFn;

/// Predicts with checkpoints. Source: mesh `transformer/utils.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(
    name = "mesh_tensorflow.transformer.utils.infer_model",
    ignored(
        estimator = "the run gives it",
        vocabulary = "the run gives it",
        sequence_length = "the run gives it",
        batch_size = "the run gives it",
        model_type = "the run gives it",
        model_dir = "the run gives it",
        eval_checkpoint_step = "the run gives it",
        checkpoint_paths = "`run.eval_checkpoint_step` gives it"
    )
)]
pub struct InferModel {
    /// The predictions.
    #[gin(default = None)]
    pub decode_fn: Option<Ref<DecodeFn>>,
}

/// The predictions of a run.
#[derive(Clone, Debug, PartialEq, Configurable)]
pub enum DecodeFn {
    /// Of the lines of a file.
    File(DecodeFromFile),
    /// Of a task.
    Dataset(DecodeFromDataset),
}

/// Predicts from the lines of a file. Source: mesh `transformer/utils.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(
    name = "mesh_tensorflow.transformer.utils.decode_from_file",
    ignored(
        estimator = "the run gives it",
        vocabulary = "the run gives it",
        model_type = "the run gives it",
        batch_size = "the run gives it",
        sequence_length = "the run gives it",
        checkpoint_path = "the run gives it",
        eos_id = "the vocabulary's end of a sequence"
    )
)]
pub struct DecodeFromFile {
    /// The inputs, one a line.
    pub input_filename: String,
    /// The predictions are in `{output_filename}-{step}`.
    pub output_filename: String,
    /// Predictions for each line.
    #[gin(default = 1)]
    pub repeats: u64,
}

/// Predicts from the examples of a task. Source: mesh `transformer/utils.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(
    name = "mesh_tensorflow.transformer.utils.decode_from_dataset",
    ignored(
        estimator = "the run gives it",
        vocabulary = "the run gives it",
        model_type = "the run gives it",
        batch_size = "the run gives it",
        sequence_length = "the run gives it",
        checkpoint_path = "the run gives it"
    )
)]
pub struct DecodeFromDataset {
    /// The examples.
    pub infer_dataset_fn: Ref<DatasetFn>,
    /// The split.
    #[gin(default = "validation".to_string())]
    pub dataset_split: String,
    /// Folder of the results.
    pub decode_output_dir: String,
}

/// Scores the targets of a task. Source: mesh `transformer/utils.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(
    name = "mesh_tensorflow.transformer.utils.score_from_dataset",
    ignored(
        estimator = "the run gives it",
        vocabulary = "the run gives it",
        batch_size = "the run gives it",
        sequence_length = "the run gives it",
        model_dir = "the run gives it",
        eval_checkpoint_step = "the run gives it",
        dataset_split = "the run gives it"
    )
)]
pub struct ScoreFromDataset {
    /// The examples.
    #[gin(default = None)]
    pub score_dataset_fn: Option<Ref<DatasetFn>>,
    /// The writing of the scores.
    pub score_postprocess_fn: Ref<Score>,
}

/// Scores the lines of two files. Source: mesh `transformer/utils.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(
    name = "mesh_tensorflow.transformer.utils.score_from_strings",
    ignored(
        estimator = "the run gives it",
        vocabulary = "the run gives it",
        model_type = "the run gives it",
        batch_size = "the run gives it",
        sequence_length = "the run gives it",
        model_dir = "the run gives it",
        eval_checkpoint_step = "the run gives it",
        eos_id = "the vocabulary's end of a sequence"
    )
)]
pub struct ScoreFromStrings {
    /// File of the inputs, one a line.
    pub inputs: String,
    /// File of the targets, one a line.
    pub targets: String,
    /// The writing of the scores.
    pub score_postprocess_fn: Ref<Score>,
    /// Whether the end of a target is scored; only True is supported.
    #[gin(default = true)]
    pub score_eos: bool,
}

/// The writing of scores.
#[derive(Clone, Debug, PartialEq, Configurable)]
pub enum Score {
    /// In files.
    Save(SaveScores),
}

/// Writes scores and texts. Source: mesh `transformer/utils.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(
    name = "mesh_tensorflow.transformer.utils.save_scores",
    ignored(results = "the run gives it", vocabulary = "the run gives it")
)]
pub struct SaveScores {
    /// The files are `{scores_filename}.scores`, `.targets`, `.lengths` and `.inputs`.
    #[gin(default = None)]
    pub scores_filename: Option<String>,
    /// Whether texts are written too.
    #[gin(default = true)]
    pub save_example_text: bool,
}

/// The checkpoints of an evaluation. Source: mesh `transformer/utils.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(
    name = "mesh_tensorflow.transformer.utils.get_checkpoint_iterator",
    ignored(
        checkpoint_step = "`run.eval_checkpoint_step` gives it",
        model_dir = "the run gives it",
        skip_until = "all checkpoints that were not evaluated are",
        stop_after = "an evaluation ends with the last checkpoint",
        find_closest = "the nearest checkpoints are taken"
    )
)]
pub struct GetCheckpointIterator {}
