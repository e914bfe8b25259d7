//! The loop: T5X's `train`, from an evaluated spec to the last checkpoint.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use tch::Device;

use crate::data::{BatchIterator, DatasetOptions, TaskProvider, get_dataset};
use crate::models::t5::T5;
use crate::models::{Batch, Model};
use crate::partition::Partitioner;
use crate::storage::Path;
use crate::telemetry::{self, Progress};

use super::actions::Actions;
use super::checkpointing::{Checkpoints, RunRecord};
use super::error::TrainError;
use super::infer_eval::InferEval;
use super::logs::Logs;
use super::periods::{Periods, Stop};
use super::seeds::{Purpose, derive};
use super::spec::{Train, TrainerClass};
use super::state::TrainState;
use super::step::Stepper;
use super::train_eval::TrainEval;
use super::vocabularies::check_vocabularies;
use super::window::Window;

/// What a run needs beside its spec.
pub struct Context<'a> {
    /// Finds tasks by name.
    pub tasks: &'a dyn TaskProvider,
    /// `config.gin` of the run.
    pub config_text: &'a str,
    /// Where the model lies.
    pub device: Device,
    /// Set to ask for a checkpoint and an end.
    pub stop: &'a AtomicBool,
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// At its last step.
    Finished {
        /// The last step.
        step: u64,
    },
    /// On request, saved.
    Interrupted {
        /// The step saved.
        step: u64,
    },
    /// By an action, such as early stopping.
    Stopped {
        /// The last step.
        step: u64,
    },
}

/// Trains.
///
/// # Errors
/// See [`TrainError`]; checkpoints already written stay whole.
pub fn train(spec: &Train, context: &Context<'_>) -> Result<Outcome, TrainError> {
    let started = Instant::now();
    let model_dir = Path::parse(&spec.model_dir)?;
    model_dir.create_dir_all()?;
    say_partitions(spec);
    let checkpoints = Checkpoints::new(&model_dir, &spec.checkpoint_cfg, (0, 1))?;
    let seed = fresh_seed(spec);
    let mut state = TrainState::initialize(&spec.model, seed, context.device)
        .map_err(|error| TrainError::Unfit(error.to_string()))?;
    let restored = checkpoints.restore(&mut state)?;
    let record = match &restored {
        Some(restored) => {
            telemetry::notice(&format!("restored step {} from {}", state.step, restored.path));
            let fresh = RunRecord { first_step: state.step, seed };
            restored.record.clone().unwrap_or(fresh)
        }
        None => RunRecord { first_step: 0, seed },
    };
    let periods = periods(spec, &record)?;
    if state.step > periods.total_steps {
        let (total, first) = (periods.total_steps, state.step);
        return Err(super::periods::PeriodsError::Past { total, first }.into());
    }
    let position = restored.and_then(|restored| restored.data);
    let mut batches = training_batches(spec, context, &record, position)?;
    let mut logs = Logs::start(spec, context.config_text, &model_dir, state.step)?;
    logs.scalar("timing/init_or_restore_seconds", started.elapsed().as_secs_f64(), state.step);
    let mut run = Run {
        stepper: stepper(spec, context, &record)?,
        train_eval: TrainEval::new(spec, context, &model_dir, state.step)?,
        infer_eval: InferEval::new(spec, context, &model_dir, state.step)?,
        actions: Actions::new(spec.actions.as_ref())?,
        saved: state.step,
        state,
        record,
        checkpoints,
        stop: context.stop,
        started,
    };
    run.begin(spec, &periods, &batches)?;
    run.main_loop(&periods, &mut batches, &mut logs)
}

/// A mesh larger than what there is runs on what there is, and says so.
fn say_partitions(spec: &Train) {
    let Partitioner::Pjit(partitioner) = &spec.partitioner;
    let asked = partitioner.requested_partitions().unwrap_or(1);
    if asked > 1 {
        telemetry::notice_once(&format!(
            "num_partitions = {asked}, and there is 1 process: the model is not partitioned"
        ));
    }
}

/// The seed of a run that goes on from no other: the configured one, else the clock.
fn fresh_seed(spec: &Train) -> u64 {
    match spec.random_seed {
        Some(seed) => seed as u64,
        None => {
            let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
            since.map_or(0, |since| since.as_nanos() as u64)
        }
    }
}

fn periods(spec: &Train, record: &RunRecord) -> Result<Periods, TrainError> {
    let save = spec.checkpoint_cfg.save.as_ref();
    let evaluates = spec.train_eval_dataset_cfg.is_some() || spec.infer_eval_dataset_cfg.is_some();
    let total_steps = match spec.relative_steps {
        Some(steps) => record.first_step + steps,
        None => spec.total_steps,
    };
    let periods = Periods {
        first_step: record.first_step,
        total_steps,
        stats: spec.stats_period.unwrap_or(0),
        eval: spec.eval_period.filter(|_| evaluates).unwrap_or(0),
        checkpoint: save.and_then(|save| save.period).unwrap_or(0),
        checkpoint_steps: save.and_then(|save| save.checkpoint_steps.clone()).unwrap_or_default(),
    };
    Ok(periods.validated()?)
}

fn training_batches(
    spec: &Train,
    context: &Context<'_>,
    record: &RunRecord,
    position: Option<crate::data::DatasetState>,
) -> Result<BatchIterator, TrainError> {
    let config = &spec.train_dataset_cfg;
    check_vocabularies(&spec.model, config, context.tasks)?;
    // Without a seed of its own the data follows the run's.
    let seed = Some(derive(record.seed, Purpose::Data, &[]));
    let options = DatasetOptions { seed, resume: position, ..DatasetOptions::default() };
    let batches = get_dataset(config, context.tasks, options)?;
    batches.notices().iter().for_each(|notice| telemetry::notice_once(notice));
    Ok(batches)
}

fn stepper(spec: &Train, context: &Context<'_>, record: &RunRecord) -> Result<Stepper, TrainError> {
    let TrainerClass::Trainer(trainer) = &spec.trainer_cls.0;
    let schedule = trainer.learning_rate_fn.build();
    let schedule = schedule.map_err(|error| TrainError::Unfit(error.to_string()))?;
    let num_microbatches = trainer.num_microbatches.unwrap_or(1).max(1);
    let batch_size = spec.train_dataset_cfg.batch_size;
    if !batch_size.is_multiple_of(num_microbatches) {
        let message = format!(
            "batch size {batch_size} is not divided evenly by trainer.Trainer.num_microbatches = \
             {num_microbatches}"
        );
        return Err(TrainError::Unfit(message));
    }
    let Model::EncoderDecoder(model) = &spec.model;
    Ok(Stepper {
        model: T5::new(model.config().clone()),
        loss: model.loss_spec(),
        schedule,
        num_microbatches,
        seed: record.seed,
        rank: 0,
        device: context.device,
    })
}

/// A run under way.
struct Run<'a> {
    stepper: Stepper,
    state: TrainState,
    record: RunRecord,
    checkpoints: Checkpoints<'a>,
    /// Step of the newest checkpoint.
    saved: u64,
    train_eval: TrainEval,
    infer_eval: Option<InferEval>,
    actions: Actions,
    stop: &'a AtomicBool,
    started: Instant,
}

impl Run<'_> {
    /// What T5X does before the first step: evaluate if asked, and save.
    fn begin(
        &mut self,
        spec: &Train,
        periods: &Periods,
        batches: &BatchIterator,
    ) -> Result<(), TrainError> {
        if spec.run_eval_before_training {
            self.evaluate()?;
        }
        if periods.checkpoint > 0 && self.state.step == self.record.first_step {
            self.save(batches)?;
        }
        Ok(())
    }

    fn main_loop(
        &mut self,
        periods: &Periods,
        batches: &mut BatchIterator,
        logs: &mut Logs,
    ) -> Result<Outcome, TrainError> {
        let mut progress = Progress::new(self.state.step, periods.total_steps);
        while self.state.step < periods.total_steps {
            let stop = periods.next_stop(self.state.step);
            let window = self.train_until(stop.step, batches, &mut progress)?;
            if window.steps() > 0 {
                logs.window(&window, self.state.step);
                progress.report(window.status(self.state.step));
            }
            self.check_loss(&window)?;
            if self.stop.load(Ordering::Relaxed) {
                self.save(batches)?;
                return Ok(Outcome::Interrupted { step: self.state.step });
            }
            if self.act(stop, &window, batches, logs)? {
                self.save(batches)?;
                return Ok(Outcome::Stopped { step: self.state.step });
            }
        }
        Ok(Outcome::Finished { step: self.state.step })
    }

    /// Trains up to `end`, or until asked to stop.
    fn train_until(
        &mut self,
        end: u64,
        batches: &mut BatchIterator,
        progress: &mut Progress,
    ) -> Result<Window, TrainError> {
        let mut window = Window::start();
        while self.state.step < end && !self.stop.load(Ordering::Relaxed) {
            let waiting = Instant::now();
            let batch = batches.next_batch()?.ok_or_else(|| {
                TrainError::Unfit("the training data ended, though it repeats".to_string())
            })?;
            let waited = waiting.elapsed();
            let batch = Batch::from_host(&batch);
            let report = self.stepper.train_step(&mut self.state, &batch)?;
            window.add(&report, waited);
            progress.step(self.state.step);
        }
        window.finish(Some(self.started.elapsed()));
        Ok(window)
    }

    /// A loss that is no number ends the run before it is saved.
    fn check_loss(&self, window: &Window) -> Result<(), TrainError> {
        match window.non_finite_loss() {
            None => Ok(()),
            Some(value) => {
                Err(TrainError::NonFiniteLoss { step: self.state.step, value, saved: self.saved })
            }
        }
    }

    /// What is due at a pause; `true` if an action asks to stop.
    fn act(
        &mut self,
        stop: Stop,
        window: &Window,
        batches: &BatchIterator,
        logs: &mut Logs,
    ) -> Result<bool, TrainError> {
        let mut stopping = self.actions.after_train(&window.scalars());
        if stop.save {
            let started = Instant::now();
            self.save(batches)?;
            let seconds = started.elapsed().as_secs_f64();
            logs.scalar("timing/checkpoint_seconds", seconds, self.state.step);
        }
        if stop.eval {
            let started = Instant::now();
            stopping |= self.evaluate()?;
            let seconds = started.elapsed().as_secs_f64();
            logs.scalar("timing/evaluate_seconds", seconds, self.state.step);
        }
        Ok(stopping)
    }

    fn evaluate(&mut self) -> Result<bool, TrainError> {
        let losses = self.train_eval.evaluate(&self.stepper, &self.state)?;
        let mut stopping = self.actions.after_train_eval(&losses);
        if let Some(infer_eval) = &mut self.infer_eval {
            let metrics = infer_eval.evaluate(&self.stepper, &self.state)?;
            stopping |= self.actions.after_infer_eval(&metrics);
        }
        Ok(stopping)
    }

    fn save(&mut self, batches: &BatchIterator) -> Result<(), TrainError> {
        self.checkpoints.save(&self.state, &self.record, &batches.state())?;
        if self.checkpoints.saves() {
            self.saved = self.state.step;
        }
        Ok(())
    }
}
