//! Evaluation by the training loss on held-out batches, with teacher forcing, a task at a time.

use std::time::Instant;

use crate::data::{self, DatasetOptions, training_eval_batches};
use crate::metrics::{LossSums, TrainMetrics, Window};
use crate::models::Batch;
use crate::partition::Process;
use crate::storage::{Path, Unsent};
use crate::telemetry::{self, EventWriter};

use super::agreement::{agree_to_go_on, sums_of_all};
use super::error::SessionError;
use super::eval_context::EvalContext;
use super::held_out::{HeldOut, MetricsByTask};
use super::unfinished::Unfinished;

/// The folder of the results, in that of the run.
pub const TRAINING_EVAL: &str = "training_eval";

/// Names of TensorBoard's runs are cut here (T5X `trainer.py`).
const MAX_NAME_LENGTH: usize = 113;

/// The held-out batches of every task; no tasks by default.
#[derive(Default)]
pub struct TrainingEvaluation {
    tasks: Vec<EvalTask>,
}

struct EvalTask {
    name: String,
    batches: Vec<data::Batch>,
    /// `None` if another process writes the results.
    events: Option<EventWriter>,
}

impl TrainingEvaluation {
    /// Reads `eval_steps` batches of every task that has the split, or all of one pass. New logs under `log_dir`, which is
    /// `None` in a process that writes none, replace those of an earlier process for steps later than
    /// `first_step`, if it is given.
    ///
    /// # Errors
    /// Reading fails, or a split is empty.
    pub fn new(
        held_out: HeldOut<'_>,
        eval_steps: Option<u64>,
        log_dir: Option<&Path>,
        first_step: Option<u64>,
    ) -> Result<Self, SessionError> {
        let HeldOut { model, config, tasks: provider } = held_out;
        let options = DatasetOptions {
            converter: model.feature_converter(),
            bos_id: model.bos_id(),
            known_ids: Some(model.known_ids()),
            ..Default::default()
        };
        let eval_steps = eval_steps.map(|steps| steps as usize);
        let found = training_eval_batches(config, provider, &options, eval_steps)?;
        options.bad_records.tell("training evaluation");
        if found.is_empty() {
            let (name, split) = (&config.mixture_or_task_name, &config.split);
            telemetry::notice(&format!("{name} has no '{split}' split: no training evaluation"));
        }
        let mut tasks = Vec::new();
        for (name, batches) in found {
            let run: String = name.chars().take(MAX_NAME_LENGTH).collect();
            let first_step = first_step.map(|step| step as i64);
            let events = log_dir.map(|dir| EventWriter::new(dir.join(&run), first_step));
            tasks.push(EvalTask { name, batches, events });
        }
        Ok(Self { tasks })
    }

    /// Ensures that everything logged is stored durably.
    ///
    /// # Errors
    /// A part of the logs is lost.
    pub fn settle(&mut self) -> Result<(), SessionError> {
        Ok(self
            .tasks
            .iter_mut()
            .flat_map(|task| &mut task.events)
            .try_for_each(EventWriter::settle)?)
    }

    /// Returns logged values that a store may not have yet.
    pub fn unsent(&self) -> impl Iterator<Item = Unsent> + '_ {
        self.tasks.iter().flat_map(|task| &task.events).filter_map(EventWriter::unsent)
    }

    /// Whether no task has batches to evaluate.
    pub fn is_empty(&self) -> bool {
        self.tasks.is_empty()
    }

    /// Measures every task and writes the metrics.
    ///
    /// # Errors
    /// libtorch fails, a process is lost, or one is asked to end between two batches.
    pub fn evaluate(&mut self, cx: &EvalContext<'_>) -> Result<MetricsByTask, Unfinished> {
        let step = cx.step;
        let mut out = MetricsByTask::new();
        for task in &mut self.tasks {
            let started = Instant::now();
            let mut metrics = TrainMetrics::default();
            for sums in task.sums(cx)? {
                metrics.add_step(&sums, None);
            }
            let num_devices = cx.processes.place().count;
            let seconds = started.elapsed().as_secs_f64();
            let scalars = metrics.summary(&Window { seconds, num_devices, uptime: None });
            if let Some(events) = &mut task.events {
                events.scalars(step as i64, scalars.clone());
            }
            let shown = |tag: &str| scalars.get(tag).copied().unwrap_or(f64::NAN);
            let told = cx.forward.loss.told();
            let unit = if told == "loss" { "" } else { " per token" };
            telemetry::notice(&format!(
                "step {step}: held-out {}: loss {:.4}{unit}, accuracy {:.4}",
                task.name,
                shown(told),
                shown("accuracy"),
            ));
            out.insert(task.name.clone(), scalars);
        }
        Ok(out)
    }
}

impl EvalTask {
    /// Returns the sums of every batch. The processes take batches in turn.
    fn sums(&self, cx: &EvalContext<'_>) -> Result<Vec<LossSums>, Unfinished> {
        let Process { rank, count } = cx.processes.place();
        let mut all = Vec::new();
        for round in self.batches.chunks(count) {
            // A process without a batch measures another one's and does not count it.
            let batch = &round[rank % round.len()];
            let is_asked = cx.is_asked();
            let counts = rank < round.len();
            let sums = cx.forward.eval_step(cx.params, cx.step, &Batch::from_host(batch))?;
            agree_to_go_on(cx.processes, is_asked)?;
            all.extend(sums_of_all(cx.processes, sums, counts)?);
        }
        Ok(all)
    }
}
