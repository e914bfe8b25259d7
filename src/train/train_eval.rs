//! Evaluation by the training loss on held-out batches, with teacher forcing, a task at a time.

use std::sync::atomic::AtomicBool;

use crate::data::{self, DatasetOptions, training_eval_batches};
use crate::models::Batch;
use crate::storage::Path;
use crate::telemetry::{self, EventWriter};

use super::actions::MetricsByTask;
use super::error::TrainError;
use super::inputs::num_ids;
use super::run::Context;
use super::spec::Train;
use super::state::TrainState;
use super::step::Stepper;
use super::unfinished::{Unfinished, go_on};
use super::vocabularies::check_vocabularies;
use super::window::Window;

/// Names of TensorBoard's runs are cut here (T5X `trainer.py`).
const MAX_NAME_LENGTH: usize = 113;

/// The held-out batches of every task.
pub struct TrainEval {
    tasks: Vec<EvalTask>,
}

struct EvalTask {
    name: String,
    batches: Vec<data::Batch>,
    events: EventWriter,
}

impl TrainEval {
    /// Reads `eval_steps` batches of every task that has the split.
    ///
    /// # Errors
    /// Reading fails, or a split is empty.
    pub fn new(
        spec: &Train,
        context: &Context<'_>,
        model_dir: &Path,
        step: u64,
    ) -> Result<Self, TrainError> {
        let Some(config) = &spec.train_eval_dataset_cfg else {
            return Ok(Self { tasks: Vec::new() });
        };
        check_vocabularies(&spec.model, config, context.tasks)?;
        let options = DatasetOptions {
            converter: spec.model.feature_converter(),
            num_ids: num_ids(&spec.model),
            ..Default::default()
        };
        let eval_steps = spec.eval_steps as usize;
        let found = training_eval_batches(config, context.tasks, &options, eval_steps)?;
        options.bad_records.tell("training evaluation");
        if found.is_empty() {
            let (name, split) = (&config.mixture_or_task_name, &config.split);
            telemetry::notice(&format!("{name} has no '{split}' split: no training evaluation"));
        }
        let mut tasks = Vec::new();
        for (name, batches) in found {
            let run: String = name.chars().take(MAX_NAME_LENGTH).collect();
            let dir = model_dir.join("training_eval").join(&run);
            tasks.push(EvalTask { name, batches, events: EventWriter::new(dir, step as i64) });
        }
        Ok(Self { tasks })
    }

    /// Measures every task and writes the metrics down.
    ///
    /// # Errors
    /// libtorch fails, or `stop` is set between two batches.
    pub fn evaluate(
        &mut self,
        stepper: &Stepper,
        state: &TrainState,
        stop: &AtomicBool,
    ) -> Result<MetricsByTask, Unfinished> {
        let mut out = MetricsByTask::new();
        for task in &mut self.tasks {
            let mut window = Window::start();
            for batch in &task.batches {
                go_on(stop)?;
                window.add_eval(&stepper.eval_step(state, &Batch::from_host(batch))?);
            }
            window.finish(None);
            let scalars = window.scalars();
            task.events.scalars(state.step as i64, scalars.clone());
            let shown = |tag: &str| scalars.get(tag).copied().unwrap_or(f64::NAN);
            telemetry::notice(&format!(
                "step {}: held-out {}: loss {:.4} per token, accuracy {:.4}",
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
