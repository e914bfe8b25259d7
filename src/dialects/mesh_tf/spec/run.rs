//! `mesh_tensorflow.transformer.utils.run`, the root of every run.

use std::collections::BTreeMap;

use gimlet_gin::{Configurable, Ref};

use super::data::DatasetFn;
use super::optimizer::Optimizer;
use crate::mesh_tf::values::{
    BatchSize, CheckpointStep, LearningRate, MeshShape, NoEnsemble, NoPredictFn, TrainSteps,
};

/// Trains, evaluates or predicts with a Transformer. Source: mesh `transformer/utils.py`.
///
/// `gimlet t5_mesh_transformer` translates it into `t5x.train.train`, `t5x.eval.evaluate` or
/// `t5x.infer.infer`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(
    name = "mesh_tensorflow.transformer.utils.run",
    ignored(
        tpu_job_name = "there are no TPUs",
        tpu = "the command line gives it",
        gcp_project = "there are no TPUs",
        tpu_zone = "there are no TPUs",
        model_dir = "the command line gives it",
        vocabulary = "the vocabularies are those of the task",
        autostack = "variables are never stacked",
        iterations_per_loop = "each step is a call",
        mesh_devices = "the devices are those of the machine",
        layout_rules = "parameters lie as `partitioner.logical_axis_rules` says",
        export_path = "`gimlet export` writes models",
        export_checkpoint_step = "`gimlet export` writes models",
        train_model_fn = "there is one training",
        skip_seen_data = "a resumed run continues with its own position in the data",
        seen_data_init_step = "a resumed run continues with its own position in the data",
        checkpoint_input_pipeline = "checkpoints always have the position in the data"
    )
)]
pub struct Run {
    /// The kind of the model: 'bitransformer' has an encoder and a decoder, 'lm' and 'delimited_lm' a decoder that
    /// reads inputs and then targets.
    #[gin(default = ModelType::Bitransformer)]
    pub model_type: ModelType,
    /// The work: 'train', 'eval', 'score_eval', 'perplexity_eval', 'infer', 'score_from_strings' or
    /// 'score_from_dataset'.
    #[gin(default = "train".to_string())]
    pub mode: String,
    /// The batches of a training.
    #[gin(default = None)]
    pub train_dataset_fn: Option<Ref<DatasetFn>>,
    /// The examples of an evaluation.
    #[gin(default = None)]
    pub eval_dataset_fn: Option<Ref<DatasetFn>>,
    /// The split; a training needs 'train'.
    #[gin(default = "train".to_string())]
    pub dataset_split: String,
    /// Feature to its length in tokens. None takes the longest example's, in evaluations.
    #[gin(default = None)]
    pub sequence_length: Option<BTreeMap<String, u64>>,
    /// The size of a batch: sequences, or a pair such as ('tokens_per_batch', 65536), which the length of the longest
    /// feature divides.
    #[gin(default = BatchSize::TokensPerReplica(2048))]
    pub batch_size: BatchSize,
    /// The step to stop at, counted from zero and including steps of a restored checkpoint.
    #[gin(default = TrainSteps::Auto(Ref(super::AutoTrainSteps::default())))]
    pub train_steps: TrainSteps,
    /// The last step in the view of learning rate schedules; None is `train_steps`.
    #[gin(default = None)]
    pub total_run_steps: Option<u64>,
    /// Steps between checkpoints.
    #[gin(default = 5000)]
    pub save_checkpoints_steps: u64,
    /// Number of most recent checkpoints to keep; None and 0 keep all.
    #[gin(default = None)]
    pub keep_checkpoint_max: Option<u64>,
    /// The checkpoint to start from: parameters, optimizer state and step. Arrays that only the checkpoint or only
    /// the model has are left as they are.
    #[gin(default = None)]
    pub init_checkpoint: Option<String>,
    /// The learning rate by step: a schedule, a number, or a list of them, which are multiplied. None is Adafactor's
    /// own.
    #[gin(default = LearningRate::Adafactors)]
    pub learning_rate_schedule: LearningRate,
    /// The optimizer.
    #[gin(default = None)]
    pub optimizer: Option<Ref<Optimizer>>,
    /// Regular expression for names of the variables that are trained; the others are frozen. None trains all.
    #[gin(default = None)]
    pub variable_filter: Option<String>,
    /// The checkpoints to evaluate: 'all', -1 for the newest, or steps, for the nearest ones. None waits for new ones.
    #[gin(default = CheckpointStep::New)]
    pub eval_checkpoint_step: CheckpointStep,
    /// Folder of the results of an evaluation; None is MODEL_DIR/{split}_eval.
    #[gin(default = None)]
    pub eval_summary_dir: Option<String>,
    /// Batches of each task of a 'perplexity_eval'.
    #[gin(default = 100)]
    pub perplexity_eval_steps: u64,
    /// Whether an evaluation also writes a line for each input, target and prediction.
    #[gin(default = true)]
    pub output_eval_examples: bool,
    /// The mesh of devices, of which the number of replicas counts.
    pub mesh_shape: MeshShape,
    /// An ensemble's inputs; only None is supported.
    #[gin(default = NoEnsemble)]
    pub ensemble_inputs: NoEnsemble,
    /// Other predictions; only None is supported.
    #[gin(default = NoPredictFn)]
    pub predict_fn: NoPredictFn,
}

/// The modes of `run`.
pub const MODES: [&str; 7] = [
    "train",
    "eval",
    "score_eval",
    "perplexity_eval",
    "infer",
    "score_from_strings",
    "score_from_dataset",
];

/// The kind of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Configurable)]
pub enum ModelType {
    /// An encoder and a decoder.
    Bitransformer,
    /// A decoder that reads targets; files of 2019 name it for tasks with inputs as well, which then come first.
    Lm,
    /// A decoder that reads inputs and then targets.
    DelimitedLm,
}
