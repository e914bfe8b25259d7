//! The run of an evaluation: evaluates one checkpoint after another on the same examples.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::checkpoint::RestoreMode;
use crate::data::DatasetConfig;
use crate::evaluation::Logger;
use crate::partition::Processes;
use crate::session::agreement::{check_same, of_first};
use crate::session::context::{Context, say_partitions};
use crate::session::damaged_checkpoints::restore;
use crate::session::describe::{describe, describe_model};
use crate::session::error::SessionError;
use crate::session::eval_context::EvalContext;
use crate::session::forward::Forward;
use crate::session::held_out::{HeldOut, MetricsByTask};
use crate::session::inference_evaluation::{INFERENCE_EVAL, InferenceEvaluation};
use crate::session::model_dir_lock::ModelDirLock;
use crate::session::preflight::Moment;
use crate::session::rank_log;
use crate::session::restored_params::RestoredParams;
use crate::session::state_layout::step_variable;
use crate::session::training_evaluation::{TRAINING_EVAL, TrainingEvaluation};
use crate::session::unfinished::Unfinished;
use crate::session::weights::{Restored, Weights, refuse_shortage};
use crate::storage::{Path, Takeover};
use crate::telemetry;

use super::check::check;
use super::chosen::{Chosen, choose};
use super::done::DoneCheckpoints;
use super::preflight::{nothing_to_evaluate, preflight};
use super::record::{EvalRecord, file as record_file};
use super::spec::{Evaluate, TrainEvalDatasets};

/// The greatest number of reasons that a message quotes.
const MAX_REASONS: usize = 4;

/// The result of an evaluation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Evaluations {
    /// Number of evaluated checkpoints.
    pub count: usize,
    /// Error messages of the checkpoints that were left out.
    pub damaged: Vec<String>,
    /// Whether a request to end came before the last of them.
    pub is_interrupted: bool,
}

/// Evaluates checkpoints. `takeover` decides about an output folder in a bucket into which another
/// process seems to write.
///
/// # Errors
/// See [`SessionError`]; results already written stay whole. In mode 'all' damaged checkpoints are no errors:
/// they are left out.
pub fn evaluate(
    spec: &Evaluate,
    context: &Context<'_>,
    takeover: Takeover,
) -> Result<Evaluations, SessionError> {
    check(spec)?;
    let processes = &context.processes;
    check_same(processes, context.config_text)?;
    let output_dir = Path::parse(&spec.output_dir)?;
    // Two runs that write into one folder would lose each other's results.
    let held = if processes.is_first() { occupy(&output_dir, takeover)? } else { None };
    let (done, wanted) = (
        DoneCheckpoints::of(spec)?,
        RestoredParams::new(&spec.model, &spec.restore_checkpoint_cfg),
    );
    let (paths, record) = chosen_by_first(spec, context, &done, &wanted)?;
    if paths.is_empty() {
        return Ok(Evaluations::default());
    }
    of_first(processes, || preflight(spec, context.tasks, Moment::Start))?;
    refuse_shortage(&spec.model, &context.mesh)?;
    say_partitions(&context.mesh);
    let mut evaluation = Evaluation {
        weights: Weights::new(&spec.model, wanted, spec.fallback_init_rng, context.mesh.clone()),
        forward: Forward::new(&spec.model, None, &context.mesh)?,
        training_evaluation: training_evaluation(spec, context, &output_dir)?,
        inference_evaluation: inference_evaluation(spec, context, &output_dir)?,
        logs_to_console: logs_to_console(spec),
        done,
        record,
        record_file: record_file(spec)?,
        evaluated: BTreeMap::new(),
        processes: Arc::clone(processes),
        stop: context.stop,
    };
    if evaluation.training_evaluation.is_empty() && evaluation.inference_evaluation.is_none() {
        let DatasetConfig { mixture_or_task_name: name, split, .. } = &spec.dataset_cfg;
        return Err(SessionError::Unfit(format!(
            "nothing of '{name}' can be evaluated: it has no '{split}' split; bind \
             utils.DatasetConfig.split to one that it has"
        )));
    }
    // Nothing is written before this line: an evaluation that cannot start leaves no files.
    processes.wait_for_all()?;
    let _held = match processes.is_first() {
        true => Some(open(spec, context, held, takeover, &output_dir)?),
        false => None,
    };
    processes.wait_for_all()?;
    rank_log::open(processes, &output_dir, context.verbosity)?;
    evaluation.run(&paths, spec.restore_checkpoint_cfg.mode)
}

/// Returns the checkpoints that the first process chooses: another one may see others beside a training run.
fn chosen_by_first(
    spec: &Evaluate,
    context: &Context<'_>,
    done: &DoneCheckpoints,
    wanted: &RestoredParams,
) -> Result<(Vec<Path>, EvalRecord), SessionError> {
    let (paths, record) = of_first(&context.processes, || {
        let chosen = choose(spec, &context.values, done, wanted)?;
        say_what_is_done(&chosen, done);
        let paths: Vec<String> = chosen.paths.iter().map(Path::to_string).collect();
        Ok::<_, SessionError>((paths, chosen.record))
    })?;
    let paths = paths.iter().map(|path| Path::parse(path)).collect::<Result<_, _>>()?;
    Ok((paths, record))
}

/// Makes and locks the folder of results, and describes the evaluation there.
fn open(
    spec: &Evaluate,
    context: &Context<'_>,
    held: Option<ModelDirLock>,
    takeover: Takeover,
    output_dir: &Path,
) -> Result<ModelDirLock, SessionError> {
    output_dir.create_dir_all()?;
    let held = held.map_or_else(|| take(output_dir, takeover), Ok)?;
    let model_info = describe_model(&spec.model, &[step_variable()], &spec.partitioner);
    describe(output_dir, context, &model_info)?;
    for logger in loggers(spec) {
        if let Logger::Mlflow(logger) = logger {
            // The evaluator logs into the same run.
            logger.run_of(output_dir).iter().for_each(|run| run.describe(&context.params));
        }
    }
    Ok(held)
}

fn say_what_is_done(chosen: &Chosen, done: &DoneCheckpoints) {
    if chosen.num_done > 0 {
        let (num_done, file, left) = (chosen.num_done, done.file(), chosen.paths.len());
        telemetry::notice(&format!("evaluated before, as {file} lists: {num_done}; left: {left}"));
    }
}

/// Creates the evaluation by the training loss; an empty one if no trainer is bound.
fn training_evaluation(
    spec: &Evaluate,
    context: &Context<'_>,
    output_dir: &Path,
) -> Result<TrainingEvaluation, SessionError> {
    let TrainEvalDatasets::Training(datasets) = &spec.train_eval_get_dataset_fn.0;
    if spec.training_evaluator_cls.is_none() {
        return Ok(TrainingEvaluation::default());
    }
    let held_out = HeldOut::new(&spec.model, &spec.dataset_cfg, context.tasks)?;
    let log_dir = context.processes.is_first().then(|| output_dir.join(TRAINING_EVAL));
    TrainingEvaluation::new(held_out, datasets.eval_steps, log_dir.as_ref(), None)
}

/// Creates the evaluation by decoding; `None` if no evaluator is bound.
fn inference_evaluation(
    spec: &Evaluate,
    context: &Context<'_>,
    output_dir: &Path,
) -> Result<Option<InferenceEvaluation>, SessionError> {
    let Some(evaluator) = &spec.inference_evaluator_cls else { return Ok(None) };
    let held_out = HeldOut::new(&spec.model, &spec.dataset_cfg, context.tasks)?;
    let log_dir = context.processes.is_first().then(|| output_dir.join(INFERENCE_EVAL));
    let inference_evaluation =
        InferenceEvaluation::new(held_out, evaluator, log_dir.as_ref(), None)?;
    let left_out = inference_evaluation.left_out();
    if inference_evaluation.is_empty() {
        let name = &spec.dataset_cfg.mixture_or_task_name;
        let reasons = left_out[..left_out.len().min(MAX_REASONS)].join("; ");
        return Err(nothing_to_evaluate(name, &reasons));
    }
    left_out.iter().for_each(|reason| telemetry::notice(&format!("left out: {reason}")));
    Ok(Some(inference_evaluation))
}

/// Whether a logger prints the metrics.
fn logs_to_console(spec: &Evaluate) -> bool {
    loggers(spec).any(|logger| matches!(logger, Logger::PyLogging(_)))
}

fn loggers(spec: &Evaluate) -> impl Iterator<Item = &Logger> {
    let evaluator = spec.inference_evaluator_cls.iter();
    evaluator.flat_map(|evaluator| &evaluator.0.logger_cls).map(|logger| &logger.0)
}

/// Locks the folder of results if it exists.
fn occupy(output_dir: &Path, takeover: Takeover) -> Result<Option<ModelDirLock>, SessionError> {
    output_dir.is_dir()?.then(|| take(output_dir, takeover)).transpose()
}

fn take(output_dir: &Path, takeover: Takeover) -> Result<ModelDirLock, SessionError> {
    ModelDirLock::take(output_dir, takeover).map_err(|error| match error {
        SessionError::Occupied { by, or, .. } => SessionError::Unfit(format!(
            "{by} writes into `{output_dir}`: {or}wait until it ends, end it, or set EVAL_OUTPUT_DIR \
             to another folder"
        )),
        error => error,
    })
}

/// An evaluation in progress.
struct Evaluation<'a> {
    weights: Weights,
    forward: Forward,
    training_evaluation: TrainingEvaluation,
    inference_evaluation: Option<InferenceEvaluation>,
    logs_to_console: bool,
    done: DoneCheckpoints,
    record: EvalRecord,
    record_file: Path,
    /// By step, the checkpoint whose results were written.
    evaluated: BTreeMap<u64, Path>,
    processes: Arc<Processes>,
    stop: &'a AtomicBool,
}

impl Evaluation<'_> {
    fn run(&mut self, paths: &[Path], mode: RestoreMode) -> Result<Evaluations, SessionError> {
        let mut outcome = Evaluations::default();
        for path in paths {
            let restored = match restore(&self.weights, path, mode, &self.processes)? {
                Ok(restored) => restored,
                Err(left_out) => {
                    outcome.damaged.extend(left_out.said(path));
                    continue;
                }
            };
            match self.checkpoint(path, restored) {
                Ok(()) => outcome.count += 1,
                Err(Unfinished::Asked) => {
                    return Ok(Evaluations { is_interrupted: true, ..outcome });
                }
                Err(Unfinished::Failed(error)) => return Err(error),
            }
        }
        Ok(outcome)
    }

    /// Evaluates one checkpoint, and lists it as done once its results are safe.
    fn checkpoint(&mut self, path: &Path, restored: Restored) -> Result<(), Unfinished> {
        let Restored { step, params } = restored;
        telemetry::notice(&format!("evaluating step {step} from {path}"));
        let other = self.evaluated.insert(step, path.clone());
        let other = other.map(|other| other.to_string()).or_else(|| self.done.of_step(step));
        if let Some(other) = other.filter(|other| other != path.as_str()) {
            telemetry::warn(&format!(
                "{other} and {path} are both of step {step}: results are kept by step, so the later \
                 ones replace the others; give each a separate EVAL_OUTPUT_DIR"
            ));
        }
        if self.processes.is_first() {
            self.record.add(&self.record_file, step, path)?;
        }
        let cx = EvalContext {
            forward: &self.forward,
            params: &params,
            step,
            processes: &self.processes,
            stop: self.stop,
        };
        self.training_evaluation.evaluate(&cx)?;
        self.training_evaluation.settle()?;
        if let Some(inference_evaluation) = &mut self.inference_evaluation {
            let metrics = inference_evaluation.evaluate(&cx)?;
            inference_evaluation.settle()?;
            if !self.logs_to_console {
                tell(path, step, &metrics);
            }
        }
        if self.processes.is_first() {
            self.done.add(path)?;
        }
        Ok(())
    }
}

/// Prints the metrics, a line for each task.
fn tell(path: &Path, step: u64, metrics: &MetricsByTask) {
    for (task, metrics) in metrics {
        let numbers = metrics.iter().map(|(metric, value)| format!("{metric} {value:.3}"));
        let numbers = numbers.collect::<Vec<_>>().join(", ");
        telemetry::notice(&format!("{path}, step {step}, {task}: {numbers}"));
    }
}
