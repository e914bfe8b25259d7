//! The start of a run: checks before anything is built, MODEL_DIR's lock, the restored state, and
//! the held-out examples.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::checkpoint::{MetricMode, RankedBy, Share, list_steps};
use crate::data::{DataIdentity, DatasetState};
use crate::nn::Axes;
use crate::nn::bridge::cuda_devices;
use crate::optim::{LearningRate, OwnRate};
use crate::partition::{LocalDevice, Mesh, Process, ProcessError, Processes};
use crate::schedule::Schedule;
use crate::session::agreement::of_all;
use crate::session::check::folder_exists;
use crate::session::context::Context;
use crate::session::describe::CONFIG_FILE;
use crate::session::error::SessionError;
use crate::session::guard::{TorchFailure, guarded};
use crate::session::held_out::HeldOut;
use crate::session::inference_evaluation::{INFERENCE_EVAL, InferenceEvaluation};
use crate::session::model_dir_lock::ModelDirLock;
use crate::session::spec::MicrobatchLoss;
use crate::session::state::TrainState;
use crate::session::training_evaluation::{TRAINING_EVAL, TrainingEvaluation};
use crate::storage::{Path, StorageError, Takeover};
use crate::telemetry::{self, available_on_host, total_on_host};

use super::best::BestSoFar;
use super::checkpointing::{Checkpoints, Restored};
use super::memory::{batch_shortage, cannot_fit, saving_bytes, shortage, step_estimate};
use super::periods::Periods;
use super::plateau::Plateau;
use super::record::{Histories, Monitored, RunRecord};
use super::spec::{EarlyStoppingMode, Train};

/// The time after which a host sees a file that another one has made: clients of NFS remember for up to 60 s
/// that it is missing.
const SHARING_DELAY: Duration = Duration::from_secs(90);

/// Locks MODEL_DIR if it exists; a new one is locked when it is made.
///
/// # Errors
/// Another process works in it, or it is a file.
pub fn occupy(model_dir: &Path, takeover: Takeover) -> Result<Option<ModelDirLock>, SessionError> {
    match folder_exists("MODEL_DIR", model_dir)? {
        true => ModelDirLock::take(model_dir, takeover).map(Some),
        false => Ok(None),
    }
}

/// Locks the MODEL_DIR that this process has just made.
///
/// # Errors
/// Another process was faster.
pub fn occupy_new(model_dir: &Path, takeover: Takeover) -> Result<ModelDirLock, SessionError> {
    let occupied = ModelDirLock::take(model_dir, takeover)?;
    match list_steps(model_dir)?.is_empty() {
        true => Ok(occupied),
        false => Err(SessionError::Unfit(format!(
            "another process has trained into `{model_dir}` since this one started: start again"
        ))),
    }
}

/// The state in which a process begins or continues its run.
pub struct Start {
    /// Parameters, optimizer and step.
    pub state: TrainState,
    /// The record of the run.
    pub record: RunRecord,
    /// The place in the data.
    pub data: Option<DatasetState>,
    /// Whether an earlier process of this run saved the state.
    pub resumed: bool,
}

/// Restores the newest checkpoint of MODEL_DIR, else the configured one, else makes new parameters.
///
/// # Errors
/// A checkpoint cannot be used, or memory runs out.
pub fn restore_or_init(
    spec: &Train,
    context: &Context<'_>,
    checkpoints: &Checkpoints<'_>,
) -> Result<Start, SessionError> {
    let processes = &context.processes;
    let seed = processes.of_first(fresh_seed(spec).to_le_bytes().to_vec())?;
    let seed = u64::from_le_bytes(seed.try_into().expect("a seed has eight bytes"));
    let mut state = initialize(spec, seed, &context.mesh, &context.axes)?;
    let restored = checkpoints.restore(spec, (&mut state, seed), processes)?;
    let fresh = RunRecord {
        first_step: state.step,
        seed,
        histories: Histories::new(),
        monitored: Monitored::new(),
        ranked_by: None,
        best: BestSoFar::default(),
        plateau: Plateau::default(),
    };
    let ranked = |record| RunRecord { ranked_by: ranked_by(spec), ..record };
    let is_new = restored.as_ref().is_none_or(|restored| restored.record.is_none());
    if is_new && spec.random_seed.is_none() {
        telemetry::notice(&format!("the seed of this run is {seed}"));
    }
    let Some(Restored { record, data, path }) = restored else {
        return Ok(Start { state, record: ranked(fresh), data: None, resumed: false });
    };
    telemetry::notice(&format!("restored step {} from {path}", state.step));
    let resumed = record.is_some();
    Ok(Start { state, record: ranked(record.unwrap_or(fresh)), data, resumed })
}

/// The metric by which the run ranks its models: that of the checkpoints that stay, or of its best model.
fn ranked_by(spec: &Train) -> Option<RankedBy> {
    if let Some(keep) = spec.checkpoint_cfg.save.as_ref().and_then(|save| save.keep_best()) {
        let higher_is_better = keep.mode == MetricMode::Max;
        return Some(RankedBy { metric: keep.metric, higher_is_better });
    }
    let best = spec.best.as_ref()?;
    let higher_is_better = best.mode == EarlyStoppingMode::Max;
    Some(RankedBy { metric: best.metric.clone(), higher_is_better })
}

/// Reports the end of a run whose number of steps is relative to its start.
pub fn tell_relative_steps(spec: &Train, step: u64, periods: &Periods) {
    if let Some(steps) = spec.relative() {
        let end = periods.total_steps;
        telemetry::notice(&format!(
            "TRAIN_STEPS_RELATIVE = {steps}: training from step {step} to step {end}"
        ));
    }
}

/// Reports where a run's numbers may surprise.
pub fn tell_surprises(spec: &Train) {
    tell_learning_rate(spec);
    tell_microbatches(spec);
}

/// Reports the optimizer's own learning rate, if it is another than the Trainer's, which is then only logged.
fn tell_learning_rate(spec: &Train) {
    let trainer = spec.trainer_cls.0.trainer();
    let schedule: &Schedule = &trainer.learning_rate_fn;
    let Some(OwnRate { param, rate }) = spec.model.optimizer_def().own_learning_rate() else {
        return;
    };
    if *rate != LearningRate::Schedule(schedule.clone()) {
        telemetry::notice(&format!(
            "updates follow {param}; the Trainer's learning rate is only logged, as in T5X: to train by it, bind \
             {param} = 'trainer'"
        ));
    }
}

/// Reports that T5X's loss of a batch in microbatches is another one, where it is.
fn tell_microbatches(spec: &Train) {
    let trainer = spec.trainer_cls.0.trainer();
    let parts = trainer.num_microbatches();
    let differs = parts > 1 && spec.model.loss_spec().depends_on_parts();
    if differs && trainer.microbatch_loss == MicrobatchLoss::WholeBatch {
        telemetry::notice(&format!(
            "the loss of {parts} microbatches is that of the whole batch; T5X normalizes the loss of each microbatch alone and adds \
             them up: for its numbers bind trainer.Trainer.microbatch_loss = 'sum_of_means'"
        ));
    }
}

/// Ensures that all processes begin with the same step, record and place in the data.
///
/// # Errors
/// A process that does not.
pub fn check_same_start(processes: &Processes, start: &Start) -> Result<(), ProcessError> {
    let Start { state, record, data, .. } = start;
    let mut hasher = DefaultHasher::new();
    let all = (record, data, &state.loss_scaling);
    let text = serde_json::to_string(&all).expect("plain structs have a JSON form");
    text.hash(&mut hasher);
    let all = of_all(processes, &(state.step, hasher.finish()))?;
    match all.iter().position(|other| *other != all[0]) {
        None => Ok(()),
        Some(rank) => Err(ProcessError::Differ(format!(
            "{} begins at step {} and process 0 at step {}, or their files `gimlet/*.json` in the \
             checkpoint differ: the checkpoint must be in a folder that all hosts share, or in a bucket",
            processes.name(rank),
            all[rank].0,
            all[0].0
        ))),
    }
}

/// Ensures that all processes read the same data.
///
/// # Errors
/// The difference of a process from the first.
pub fn check_same_data(processes: &Processes, data: &DataIdentity) -> Result<(), ProcessError> {
    let all = of_all(processes, &data.to_string())?;
    match all.iter().position(|other| *other != all[0]) {
        None => Ok(()),
        Some(rank) => Err(ProcessError::Differ(format!(
            "{} reads the data `{}` and process 0 `{}`: all hosts must find the same files, and none may be missing",
            processes.name(rank),
            all[rank],
            all[0]
        ))),
    }
}

/// Returns this process's share in writing checkpoints; `None` for one process alone.
///
/// # Errors
/// Another process is lost.
pub fn share(processes: &Processes) -> Result<Option<Share>, ProcessError> {
    let clock = std::time::UNIX_EPOCH.elapsed().unwrap_or_default().as_nanos();
    let save_id = processes.of_first(format!("{clock:x}").into_bytes())?;
    let Process { rank, count } = processes.place();
    Ok((count > 1).then(|| Share {
        rank,
        count,
        save_id: String::from_utf8_lossy(&save_id).into_owned(),
        patience: processes.timeout(),
        is_hopeless: Arc::default(),
    }))
}

/// Ensures that every process sees the MODEL_DIR of the first.
///
/// # Errors
/// A process that does not, or must not.
pub fn check_shared(processes: &Processes, model_dir: &Path) -> Result<(), SessionError> {
    processes.wait_for_all()?;
    let patience = match model_dir.is_on_disk() {
        true => SHARING_DELAY.min(processes.timeout() / 2),
        false => Duration::ZERO,
    };
    let sees = appears(&model_dir.join(CONFIG_FILE), patience)?;
    match of_all(processes, &sees)?.iter().position(|sees| !sees) {
        None => Ok(()),
        Some(rank) => Err(SessionError::Unfit(format!(
            "{} does not see {model_dir} as process 0 has made it: MODEL_DIR must be a folder that all \
             hosts share, or one in a bucket",
            processes.name(rank)
        ))),
    }
}

/// Waits for a file, and returns whether it is there.
fn appears(file: &Path, patience: Duration) -> Result<bool, StorageError> {
    let end = Instant::now() + patience;
    while !file.exists()? {
        if Instant::now() > end {
            return Ok(false);
        }
        std::thread::sleep(Duration::from_millis(500));
    }
    Ok(true)
}

/// Makes new parameters and optimizer state.
///
/// # Errors
/// Memory runs out, or the optimizer's rules do not cover a parameter.
pub fn initialize(
    spec: &Train,
    seed: u64,
    mesh: &Mesh,
    axes: &Axes,
) -> Result<TrainState, SessionError> {
    let state = guarded(|| TrainState::initialize(&spec.model, seed, mesh, axes));
    let state = state.map_err(|failure| match failure {
        TorchFailure::OutOfMemory(detail) => SessionError::ModelTooLarge { detail },
        TorchFailure::Other(detail) => SessionError::Torch { step: 0, detail },
    })?;
    let mut state = state.map_err(|error| SessionError::Unfit(error.to_string()))?;
    if let Some((pattern, factor)) =
        spec.trainer_cls.0.gradient_factor().map_err(SessionError::Unfit)?
    {
        let has_factor = |name: &str| pattern.is_match(name).unwrap_or(false);
        state.optimizer.multiply_gradients(factor, &has_factor);
    }
    Ok(state)
}

/// Refuses batches that the host cannot hold: allocating them would abort the process.
///
/// # Errors
/// The batches exceed the host's memory.
pub fn refuse_shortage(spec: &Train) -> Result<(), SessionError> {
    let message = available_on_host().and_then(|available| batch_shortage(spec, available));
    message.map_or(Ok(()), |message| Err(SessionError::Unfit(message)))
}

/// Names the binding to lower before memory runs out, as far as that is predictable: the system may
/// kill a process that takes too much memory without a message.
///
/// # Errors
/// The step certainly does not fit; or an error of [`step_estimate`].
pub fn check_memory(spec: &Train, mesh: &Mesh) -> Result<(), SessionError> {
    let estimate = step_estimate(spec, mesh)?;
    let beside_saving =
        |bytes: Option<u64>| Some(bytes?.saturating_sub(saving_bytes(spec, &estimate)));
    let (available, total) = match mesh.local_device() {
        LocalDevice::Cuda(index) => {
            let total = cuda_devices().get(index).map(|device| device.memory_bytes);
            (total, total)
        }
        LocalDevice::Cpu => (beside_saving(available_on_host()), beside_saving(total_on_host())),
    };
    let trainer = spec.trainer_cls.0.trainer();
    let (parts, dimensions) = (trainer.num_microbatches(), spec.model.dimensions().configurable);
    let short = |available| shortage(&estimate, available, parts, dimensions);
    match available.and_then(short) {
        Some(message)
            if total.is_some_and(|total| cannot_fit(&estimate, total, mesh.device().is_cuda())) =>
        {
            Err(SessionError::Unfit(message))
        }
        Some(message) => {
            telemetry::warn(&message);
            Ok(())
        }
        None => Ok(()),
    }
}

/// Creates the evaluation by the training loss of held-out batches.
///
/// # Errors
/// The batches cannot be read.
pub fn training_evaluation(
    spec: &Train,
    context: &Context<'_>,
    model_dir: &Path,
    step: u64,
) -> Result<TrainingEvaluation, SessionError> {
    let Some(config) = &spec.train_eval_dataset_cfg else {
        return Ok(TrainingEvaluation::default());
    };
    let held_out = HeldOut::new(&spec.model, config, context.tasks)?;
    let log_dir = context.processes.is_first().then(|| model_dir.join(TRAINING_EVAL));
    TrainingEvaluation::new(held_out, spec.eval_steps, log_dir.as_ref(), Some(step))
}

/// Creates the evaluation by decoding; `None` if the run has none.
///
/// # Errors
/// Examples cannot be read.
pub fn inference_evaluation(
    spec: &Train,
    context: &Context<'_>,
    model_dir: &Path,
    step: u64,
) -> Result<Option<InferenceEvaluation>, SessionError> {
    let Some(config) = &spec.infer_eval_dataset_cfg else { return Ok(None) };
    let held_out = HeldOut::new(&spec.model, config, context.tasks)?;
    let log_dir = context.processes.is_first().then(|| model_dir.join(INFERENCE_EVAL));
    let evaluator = &spec.inference_evaluator_cls.0;
    let inference_evaluation =
        InferenceEvaluation::new(held_out, evaluator, log_dir.as_ref(), Some(step))?;
    for reason in inference_evaluation.left_out() {
        telemetry::notice(&format!("{reason}: it is not decoded"));
    }
    if inference_evaluation.is_empty() {
        let (name, split) = (&config.mixture_or_task_name, &config.split);
        telemetry::notice(&format!(
            "{name} has no task with metrics and a '{split}' split: no evaluation by decoding"
        ));
        return Ok(None);
    }
    Ok(Some(inference_evaluation))
}

/// Returns the seed of a run that continues no other: the configured one, else the clock.
fn fresh_seed(spec: &Train) -> u64 {
    match spec.random_seed {
        Some(seed) => seed as u64,
        None => {
            let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
            since.map_or(0, |since| since.as_nanos() as u64)
        }
    }
}
