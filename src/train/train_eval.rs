//! Evaluation by the training loss on held-out batches, with teacher forcing, a task at a time.

use crate::data::{
    DataError, DatasetConfig, DatasetOptions, EncDecBatch, TaskProvider, get_dataset, subtasks,
};
use crate::models::Batch;
use crate::storage::Path;
use crate::telemetry::{self, EventWriter};

use super::actions::MetricsByTask;
use super::error::TrainError;
use super::run::Context;
use super::spec::Train;
use super::state::TrainState;
use super::step::Stepper;
use super::window::Window;

/// TensorBoard's run names are cut here (T5X `trainer.py`).
const MAX_NAME_LENGTH: usize = 113;

/// The held-out batches of every task.
pub struct TrainEval {
    tasks: Vec<EvalTask>,
}

struct EvalTask {
    name: String,
    batches: Vec<EncDecBatch>,
    events: EventWriter,
}

impl TrainEval {
    /// Reads up to `eval_steps` batches of every task that has the split; a mixture counts as one
    /// more task under its own name.
    ///
    /// # Errors
    /// Reading fails, or a split is empty.
    pub fn new(
        spec: &Train,
        context: &Context<'_>,
        model_dir: &Path,
        step: u64,
    ) -> Result<Self, TrainError> {
        let Some(config) = &spec.train_eval_dataset_cfg else { return Ok(Self { tasks: Vec::new() }) };
        spec.model.check_vocabularies(config, context.tasks)?;
        let mut tasks = Vec::new();
        for name in names(config, context.tasks)? {
            let config = DatasetConfig { mixture_or_task_name: name.clone(), ..config.clone() };
            let batches = match read(&config, context.tasks, spec.eval_steps) {
                Err(DataError::UnknownSplit { task, split, .. }) => {
                    telemetry::notice(&format!(
                        "{task} has no '{split}' split: no training evaluation of it"
                    ));
                    continue;
                }
                batches => batches?,
            };
            let run: String = name.chars().take(MAX_NAME_LENGTH).collect();
            let dir = model_dir.join("training_eval").join(&run).local()?;
            tasks.push(EvalTask { name, batches, events: EventWriter::new(dir, step as i64) });
        }
        Ok(Self { tasks })
    }

    /// Measures every task and writes the metrics down.
    ///
    /// # Errors
    /// libtorch fails.
    pub fn evaluate(
        &mut self,
        stepper: &Stepper,
        state: &TrainState,
    ) -> Result<MetricsByTask, TrainError> {
        let mut out = MetricsByTask::new();
        for task in &mut self.tasks {
            let mut window = Window::start();
            for batch in &task.batches {
                window.add_eval(&stepper.eval_step(state, &Batch::from_host(batch))?);
            }
            window.finish(None);
            let scalars = window.scalars();
            task.events.scalars(state.step as i64, scalars.clone());
            let shown = |tag: &str| scalars.get(tag).copied().unwrap_or(f64::NAN);
            telemetry::notice(&format!(
                "step {}: {} loss {:.4} per token, accuracy {:.4}",
                state.step,
                task.name,
                shown("loss_per_nonpadding_target_token"),
                shown("accuracy"),
            ));
            out.insert(task.name.clone(), scalars);
        }
        Ok(out)
    }
}

/// The tasks to measure apart, and the mixture of them, if it is one.
fn names(config: &DatasetConfig, tasks: &dyn TaskProvider) -> Result<Vec<String>, DataError> {
    let whole = &config.mixture_or_task_name;
    let mut names: Vec<String> =
        subtasks(whole, tasks)?.iter().map(|task| task.task_name().to_string()).collect();
    if !names.contains(whole) {
        names.push(whole.clone());
    }
    Ok(names)
}

fn read(
    config: &DatasetConfig,
    tasks: &dyn TaskProvider,
    eval_steps: u64,
) -> Result<Vec<EncDecBatch>, DataError> {
    let mut batches = get_dataset(config, tasks, DatasetOptions::default())?;
    batches.notices().iter().for_each(|notice| telemetry::notice_once(notice));
    let mut out = Vec::new();
    while (out.len() as u64) < eval_steps
        && let Some(batch) = batches.next_batch()?
    {
        out.push(batch);
    }
    Ok(out)
}
