//! The configurables of evaluation.

use std::sync::Arc;

use gimlet_gin::{Configurable, Ref};
use gimlet_storage::Path;
use gimlet_telemetry::{MlflowError, MlflowRun, MlflowSettings, warn_once};

use super::evaluator::TaskEvaluator;

/// Evaluates tasks by prediction and logs the results. Source: SeqIO `evaluation.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(
    name = "seqio.Evaluator",
    alias = "seqio.evaluation.Evaluator",
    ignored(
        mixture_or_task_name = "the run gives it from its DatasetConfig",
        feature_converter = "the run gives it from its model",
        eval_split = "the run gives it from its DatasetConfig",
        use_cached = "the run gives it from its DatasetConfig",
        seed = "the run gives it from its DatasetConfig",
        sequence_length = "the run gives it from its DatasetConfig",
        log_dir = "the run gives it: inference_eval in its own directory",
        async_compute_metrics = "metrics are computed before the next step"
    )
)]
pub struct Evaluator {
    /// Evaluate only this number of examples from the beginning of each task; None means all.
    #[gin(default = None)]
    pub num_examples: Option<usize>,
    /// Shuffle once before num_examples are taken.
    #[gin(default = false)]
    pub shuffle: bool,
    /// Loggers of the results.
    #[gin(default = Vec::new())]
    pub logger_cls: Vec<Ref<Logger>>,
    /// Without effect: each evaluation reads the examples again, and keeps a batch of them in memory.
    #[gin(default = true)]
    pub use_memory_cache: bool,
    /// The feature that holds the targets.
    #[gin(default = "targets".to_string())]
    pub target_field_name: String,
    /// Number of predictions of each task that are printed after an evaluation.
    #[gin(default = NUM_SHOWN)]
    pub num_shown_examples: usize,
    /// Whether rows are as long as the longest targets of their batch, at which decoding then ends, rather than as
    /// `task_feature_lengths` says. Trainers of transformers pad their batches so. Only with an encoder.
    #[gin(default = false)]
    pub pads_to_longest_targets: bool,
}

const NUM_SHOWN: usize = 3;

impl Default for Evaluator {
    /// SeqIO's defaults.
    fn default() -> Self {
        Self {
            num_examples: None,
            shuffle: false,
            logger_cls: Vec::new(),
            use_memory_cache: true,
            target_field_name: "targets".to_string(),
            num_shown_examples: NUM_SHOWN,
            pads_to_longest_targets: false,
        }
    }
}

impl Evaluator {
    /// Creates an evaluator that logs under `log_dir`, or nowhere, for a run that starts or resumes at
    /// `first_step`, or for steps in any order. Nothing is created until there are results.
    pub fn build(&self, log_dir: Option<&Path>, first_step: Option<i64>) -> TaskEvaluator {
        TaskEvaluator::new(self.logger_cls.iter().map(|logger| &logger.0), log_dir, first_step)
    }
}

/// Any logger of an Evaluator.
#[derive(Clone, Debug, PartialEq, Configurable)]
pub enum Logger {
    /// Lines for the user.
    PyLogging(PyLoggingLogger),
    /// TensorBoard scalars.
    TensorBoard(TensorBoardLogger),
    /// TensorBoard scalars.
    TensorBoardV1(TensorBoardLoggerV1),
    /// JSON lines of metrics and of examples.
    Json(JsonLogger),
    /// Mesh TensorFlow's files.
    Mesh(MeshLogger),
    /// T0's `results.json`.
    T0Results(T0ResultsLogger),
    /// An MLflow server.
    Mlflow(MlflowLogger),
}

impl Logger {
    /// Finds a mistake that is visible before anything is logged.
    ///
    /// # Errors
    /// An address of MLflow that is missing or is not that of a server.
    pub fn check(&self) -> Result<(), MlflowError> {
        match self {
            Logger::Mlflow(logger) => logger.settings().map(drop),
            _ => Ok(()),
        }
    }
}

/// Sends metrics to an MLflow server over its REST interface, without holding up the run when the server is slow
/// or away. Credentials are those of MLflow's environment variables. A run that continues in its folder continues
/// its run of MLflow.
#[derive(Clone, Debug, Default, PartialEq, Configurable)]
#[gin(name = "gimlet.MLflowLogger")]
pub struct MlflowLogger {
    /// Address of the server; None stands for the environment variable MLFLOW_TRACKING_URI.
    #[gin(default = None)]
    pub tracking_uri: Option<String>,
    /// Experiment, which is created if it is missing; None stands for MLFLOW_EXPERIMENT_NAME, else "Default".
    #[gin(default = None)]
    pub experiment_name: Option<String>,
    /// Name of the run; None stands for MLFLOW_RUN_NAME, else the name of the run's folder.
    #[gin(default = None)]
    pub run_name: Option<String>,
}

impl MlflowLogger {
    /// Returns the server, the experiment and the credentials.
    ///
    /// # Errors
    /// The address is missing or is not that of a server.
    pub fn settings(&self) -> Result<MlflowSettings, MlflowError> {
        let Self { tracking_uri, experiment_name, run_name } = self;
        let names = [tracking_uri, experiment_name, run_name].map(Option::as_deref);
        let [tracking_uri, experiment_name, run_name] = names;
        MlflowSettings::resolve(tracking_uri, experiment_name, run_name)
    }

    /// Returns MLflow's run for the folder of a run; `None` with a warning if the settings are wrong.
    pub fn run_of(&self, folder: &Path) -> Option<Arc<MlflowRun>> {
        let settings = self.settings().inspect_err(|error| warn_once(&error.to_string()));
        Some(MlflowRun::of(folder, &settings.ok()?))
    }
}

/// Prints metrics as lines. Source: SeqIO `loggers.py`.
#[derive(Clone, Debug, Default, PartialEq, Configurable)]
#[gin(
    name = "seqio.PyLoggingLogger",
    alias = "seqio.loggers.PyLoggingLogger",
    ignored(output_dir = "the Evaluator gives it", level = "metrics are always printed")
)]
pub struct PyLoggingLogger;

/// Writes metrics to TensorBoard as `eval/{metric}`, a run per task. Source: SeqIO `loggers.py`.
#[derive(Clone, Debug, Default, PartialEq, Configurable)]
#[gin(
    name = "seqio.TensorBoardLogger",
    alias = "seqio.loggers.TensorBoardLogger",
    ignored(output_dir = "the Evaluator gives it")
)]
pub struct TensorBoardLogger;

/// The same as TensorBoardLogger. Source: SeqIO `loggers.py`.
#[derive(Clone, Debug, Default, PartialEq, Configurable)]
#[gin(
    name = "seqio.TensorBoardLoggerV1",
    alias = "seqio.loggers.TensorBoardLoggerV1",
    ignored(output_dir = "the Evaluator gives it")
)]
pub struct TensorBoardLoggerV1;

/// Writes `{task}-metrics.jsonl` and, for each step, `{task}-{step:06}.jsonl` with inputs, targets and
/// predictions. Source: SeqIO `loggers.py`.
#[derive(Clone, Debug, Default, PartialEq, Configurable)]
#[gin(
    name = "seqio.JSONLogger",
    alias = "seqio.loggers.JSONLogger",
    ignored(
        output_dir = "the Evaluator gives it",
        json_encoder_cls = "values are written as SeqIO's TensorAndNumpyEncoder writes them"
    )
)]
pub struct JsonLogger {
    /// Write only this number of examples at each step; None means all.
    #[gin(default = None)]
    pub write_n_results: Option<usize>,
}

/// Writes what Mesh TensorFlow's evaluations write, into the run's folder of results and not into `inference_eval` in
/// it: metrics in TensorBoard as `eval/{task}/{metric}`, and files with a line for each example as Python prints it,
/// `{task}_inputs` and `{task}_targets` once, and `{task}_{step}_predictions`, which are scores where a task's metrics
/// need no predictions.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "gimlet.MeshLogger")]
pub struct MeshLogger {
    /// Whether examples are written too.
    #[gin(default = true)]
    pub output_eval_examples: bool,
}

/// Writes `results.json`, as T0's `run_eval.py` does, into the run's folder of results: the accuracy, between 0 and 1, of
/// the last evaluation, under the names of the data set and the template.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "t0.ResultsLogger")]
pub struct T0ResultsLogger {
    /// The data set.
    pub dataset_name: String,
    /// Its configuration.
    #[gin(default = None)]
    pub dataset_config_name: Option<String>,
    /// The template.
    pub template_name: String,
}
