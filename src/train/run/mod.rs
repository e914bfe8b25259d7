//! The loop: T5X's `train`, from an evaluated spec to the last checkpoint.

mod evaluation;
mod saving;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::checkpoint::SaveCheckpointConfig;
use crate::data::{BatchIterator, DatasetOptions, DatasetState, get_dataset};
use crate::metrics::sum;
use crate::models::Batch;
use crate::session::agreement::{add_up, check_same, of_all, of_first};
use crate::session::check::check_dtype;
use crate::session::context::{Context, say_partitions};
use crate::session::error::SessionError;
use crate::session::inference_evaluation::InferenceEvaluation;
use crate::session::model_dir_lock::ModelDirLock;
use crate::session::preflight::Moment;
use crate::session::rank_log;
use crate::session::state::TrainState;
use crate::session::training_evaluation::TrainingEvaluation;
use crate::session::vocabularies::check_vocabularies;
use crate::storage::{Path, Takeover};
use crate::telemetry::{self, Progress};

use crate::train::actions::Actions;
use crate::train::after_training::Trained;
use crate::train::best::BestSoFar;
use crate::train::check::check;
use crate::train::checkpointing::Checkpoints;
use crate::train::inputs::training_options;
use crate::train::last_evaluation::LastEvaluation;
use crate::train::logs::Logs;
use crate::train::monitor::Monitor;
use crate::train::periods::{Periods, Stop};
use crate::train::plateau::Plateau;
use crate::train::preflight::preflight;
use crate::train::record::RunRecord;
use crate::train::slowest::Slowest;
use crate::train::spec::Train;
use crate::train::start::{
    Start, check_memory, check_same_data, check_same_start, check_shared, inference_evaluation,
    occupy, occupy_new, refuse_shortage, restore_or_init, share, tell_relative_steps,
    tell_surprises, training_evaluation,
};
use crate::train::step::{StepReport, Stepper};
use crate::train::step_graph::StepGraphs;
use crate::train::trainer_log::{TRAIN, of_model};
use crate::train::window::Window;

/// The way in which a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It reached its last step.
    Finished {
        /// The last step.
        step: u64,
    },
    /// A request ended it after a save.
    Interrupted {
        /// The step saved.
        step: u64,
    },
    /// An action ended it, such as early stopping.
    Stopped {
        /// The last step.
        step: u64,
    },
}

/// Trains; `takeover` decides whether to take MODEL_DIR from a process that seems alive.
///
/// # Errors
/// See [`SessionError`]; checkpoints already written stay whole.
pub fn train(
    spec: &Train,
    context: &Context<'_>,
    takeover: Takeover,
) -> Result<Outcome, SessionError> {
    let started = Instant::now();
    check(spec)?;
    let (mesh, processes) = (&context.mesh, &context.processes);
    check_dtype(&spec.model, mesh.local_device())?;
    check_same(processes, context.config_text)?;
    let model_dir = Path::parse(&spec.model_dir)?;
    refuse_shortage(spec)?;
    tell_surprises(spec);
    let is_first = processes.is_first();
    let occupied = if is_first { occupy(&model_dir, takeover)? } else { None };
    // The other processes wait for its answer.
    of_first(processes, || preflight(spec, context.tasks, Moment::Start))?;
    say_partitions(mesh);
    check_memory(spec, mesh)?;
    let share = share(processes)?;
    let checkpoints = Checkpoints::new(&model_dir, spec, mesh, share)?;
    let best_checkpoints = checkpoints.best(spec);
    let start = restore_or_init(spec, context, &checkpoints)?;
    check_same_start(processes, &start)?;
    let Start { state, record, data, resumed } = start;
    let evaluated = || if resumed { LastEvaluation::read(&model_dir) } else { Ok(None) };
    let last_evaluation = of_first(processes, || evaluated().map_err(SessionError::from))?;
    let periods = Periods::of(spec, record.first_step, state.step).validated(state.step)?;
    tell_relative_steps(spec, state.step, &periods);
    let saved = resumed.then_some(state.step);
    let stepper = Stepper::new(spec, record.seed, mesh, (&context.axes, processes))?;
    let mut run = Run {
        spec,
        graphs: StepGraphs::of(spec, &stepper),
        stepper,
        best: record.best.clone(),
        plateau: record.plateau.clone(),
        training_evaluation: training_evaluation(spec, context, &model_dir, state.step)?,
        inference_evaluation: inference_evaluation(spec, context, &model_dir, state.step)?,
        batches: training_batches(spec, context, &record, (data, state.step))?,
        saved,
        monitor: monitor(spec, &record, saved),
        last_evaluation,
        last_metrics: BTreeMap::new(),
        skips_nan_updates: spec.model.optimizer_def().skips_nan_updates(),
        seen_at: None,
        actions: recalled_actions(spec, &record),
        state,
        record,
        checkpoints,
        best_checkpoints,
        stop: context.stop,
        is_asked: false,
        started,
        occupied,
    };
    if run.state.step < periods.total_steps {
        run.batches.wait()?;
    }
    // Nothing is written before this line: a run that cannot start leaves no files.
    check_same_data(processes, &run.batches.state().data)?;
    if is_first {
        model_dir.create_dir_all()?;
        if run.occupied.is_none() {
            run.occupied = Some(occupy_new(&model_dir, takeover)?);
        }
        run.clear_stale()?;
    }
    let mut logs = match is_first {
        true => Logs::start(spec, context, &model_dir, run.state.step)?,
        false => Logs::none(),
    };
    check_shared(processes, &model_dir)?;
    rank_log::open(processes, &model_dir, context.verbosity)?;
    logs.scalar("timing/init_or_restore_seconds", started.elapsed().as_secs_f64(), run.state.step);
    let outcome = run.work(context, &periods, &mut logs);
    logs.end(&outcome);
    // Before MODEL_DIR is released.
    run.best_checkpoints.finish(run.checkpoints.finish(outcome))
}

/// Returns the actions of a run, with what they have seen before.
fn recalled_actions(spec: &Train, record: &RunRecord) -> Actions {
    let mut actions = Actions::new(spec.actions.as_ref());
    actions.recall(&record.histories);
    actions
}

/// Returns the monitor of a run that continues after the step `saved`.
fn monitor(spec: &Train, record: &RunRecord, saved: Option<u64>) -> Monitor {
    let keep_best = spec.checkpoint_cfg.save.as_ref().and_then(SaveCheckpointConfig::keep_best);
    Monitor::new(keep_best, record.monitored.clone(), saved)
}

fn training_batches(
    spec: &Train,
    context: &Context<'_>,
    record: &RunRecord,
    (resume, step): (Option<DatasetState>, u64),
) -> Result<BatchIterator, SessionError> {
    let config = &spec.train_dataset_cfg;
    check_vocabularies(&spec.model, config, context.tasks)?;
    // Every process reads whole batches: they are the same for any number of processes.
    let options = DatasetOptions { resume, step, ..training_options(spec, record.seed) };
    let placed = |error| context.tasks.placed(&config.mixture_or_task_name, error);
    let batches = get_dataset(config, context.tasks, options).map_err(placed)?;
    batches.notices().iter().for_each(|notice| telemetry::notice_once(notice));
    Ok(batches)
}

/// A run in progress.
struct Run<'a> {
    spec: &'a Train,
    stepper: Stepper,
    graphs: StepGraphs,
    state: TrainState,
    record: RunRecord,
    batches: BatchIterator,
    checkpoints: Checkpoints<'a>,
    best_checkpoints: Checkpoints<'a>,
    best: BestSoFar,
    plateau: Plateau,
    /// Step of the newest checkpoint, which may still be in writing.
    saved: Option<u64>,
    monitor: Monitor,
    training_evaluation: TrainingEvaluation,
    inference_evaluation: Option<InferenceEvaluation>,
    /// The last evaluation of an earlier process.
    last_evaluation: Option<LastEvaluation>,
    /// The metrics of training and of validations that were logged last, by the names of t5-experiments.
    last_metrics: BTreeMap<String, BTreeMap<String, f64>>,
    actions: Actions,
    /// Whether a loss that is not finite does no harm.
    skips_nan_updates: bool,
    /// The step after which the actions have seen an evaluation. The record of that step is from before, so that the process
    /// that continues from it shows them the evaluation again.
    seen_at: Option<u64>,
    stop: &'a AtomicBool,
    /// Whether a process was asked to end, as all of them know.
    is_asked: bool,
    started: Instant,
    /// Last, so that everything is written before its release; `None` until MODEL_DIR is made.
    occupied: Option<ModelDirLock>,
}

/// The next action of the loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Verdict {
    GoOn,
    /// An action asks to stop.
    Stop,
    /// The user or the scheduler asks to end.
    Interrupt,
}

impl Run<'_> {
    fn clear_stale(&self) -> Result<(), SessionError> {
        self.checkpoints.clear_stale()?;
        self.best_checkpoints.clear_stale()
    }

    fn work(
        &mut self,
        context: &Context<'_>,
        periods: &Periods,
        logs: &mut Logs,
    ) -> Result<Outcome, SessionError> {
        let verdict = self.begin(periods, logs)?;
        let outcome = match self.end_on(verdict, logs)? {
            Some(outcome) => outcome,
            None => self.main_loop(periods, logs)?,
        };
        let best = self.best.value.map(|_| &mut self.best_checkpoints);
        let (spec, forward, state) = (self.spec, &self.stepper.forward, &mut self.state);
        let metrics = self.last_metrics.remove(TRAIN).unwrap_or_default();
        Trained { spec, context, forward, state, best, metrics, logs }.outcome(outcome)
    }

    /// Does the work before the next step: the first checkpoint, and an evaluation that is
    /// requested or that an earlier process has not done.
    fn begin(&mut self, periods: &Periods, logs: &mut Logs) -> Result<Verdict, SessionError> {
        let step = self.state.step;
        let is_first = step == self.record.first_step;
        if is_first && periods.checkpoint > 0 && !periods.from_zero {
            self.save(logs)?;
        }
        if let Some(evaluation) = self.last_evaluation.take().filter(|last| last.step == step) {
            return self.react(&evaluation, logs);
        }
        let due = if is_first {
            self.spec.run_eval_before_training
        } else {
            self.saved.is_some() && periods.evaluates_at(step)
        };
        if due { self.evaluate(logs) } else { Ok(Verdict::GoOn) }
    }

    /// Saves and returns the outcome of the run; `None` if it continues. A run whose steps count from zero saves nothing where an
    /// action ends it.
    fn end_on(
        &mut self,
        verdict: Verdict,
        logs: &mut Logs,
    ) -> Result<Option<Outcome>, SessionError> {
        // Actions may look at times, which differ between processes.
        let verdict = of_first(&self.stepper.processes, || Ok::<_, SessionError>(verdict))?;
        let step = self.state.step;
        let outcome = match verdict {
            Verdict::GoOn => return Ok(None),
            Verdict::Stop if self.spec.counts_steps_from_zero => {
                return Ok(Some(Outcome::Stopped { step }));
            }
            Verdict::Stop => Outcome::Stopped { step },
            Verdict::Interrupt => Outcome::Interrupted { step },
        };
        self.save(logs)?;
        Ok(Some(outcome))
    }

    fn main_loop(&mut self, periods: &Periods, logs: &mut Logs) -> Result<Outcome, SessionError> {
        let mut progress = Progress::new(self.state.step, periods.total_steps);
        let mut window = self.new_window();
        while self.state.step < periods.total_steps {
            let stop = periods.next_stop(self.state.step);
            let waited = self.stepper.waited()?;
            let broken = self.train_until(stop.step, &mut window, &mut progress, logs)?;
            let ends_window = stop.stats || broken.is_some() || self.is_asked();
            if ends_window {
                self.tell(&mut window, &mut progress, logs);
            }
            if let Some(value) = broken {
                let (step, saved) = (self.state.step, self.saved);
                return Err(SessionError::NonFiniteLoss { step, value, saved });
            }
            window.waited_for_others += self.stepper.waited()? - waited;
            if ends_window {
                self.tell_speeds(&window, logs)?;
            }
            let verdict = match self.is_asked() {
                true => Verdict::Interrupt,
                false => self.act(stop, &window, logs)?,
            };
            if let Some(outcome) = self.end_on(verdict, logs)? {
                return Ok(outcome);
            }
            match ends_window {
                true => window = self.new_window(),
                false => window.go_on(),
            }
        }
        Ok(Outcome::Finished { step: self.state.step })
    }

    fn new_window(&self) -> Window {
        let told = self.stepper.forward.loss.told();
        Window::start(self.stepper.processes.place().count, told)
    }

    /// Trains up to `end`, or until asked to stop, or up to a loss that is not finite, which it returns.
    fn train_until(
        &mut self,
        end: u64,
        window: &mut Window,
        progress: &mut Progress,
        logs: &mut Logs,
    ) -> Result<Option<f64>, SessionError> {
        let mut broken = None;
        while self.state.step < end && broken.is_none() && !self.is_asked() {
            self.occupied.as_ref().map_or(Ok(()), ModelDirLock::check)?;
            self.checkpoints.check()?;
            self.best_checkpoints.check()?;
            let (report, waited) = match self.step() {
                Err(error @ SessionError::Data(_)) => {
                    // The data caused the error; the training up to it is saved.
                    self.tell(window, progress, logs);
                    if self.stepper.processes.meet_at("data error")
                        && let Err(unsaved) = self.save(logs)
                    {
                        telemetry::warn(&unsaved.to_string());
                    }
                    return Err(error);
                }
                made => made?,
            };
            window.add(&report, waited);
            progress.step(self.state.step, || window.status(self.state.step));
            self.tell_left_out(&report);
            broken = Some(report.sums.get(sum::LOSS))
                .filter(|loss| !loss.is_finite() && !self.is_harmless(&report));
        }
        window.finish(Some(self.started.elapsed()));
        Ok(broken)
    }

    /// Whether a loss that is not finite does no harm: its update was left out, and a smaller scale may help.
    fn is_harmless(&self, report: &StepReport) -> bool {
        let least = self.stepper.loss_scaler.as_ref().map(|scaler| scaler.minimum);
        self.skips_nan_updates || !report.is_updated && report.loss_scale > least
    }

    /// Says that a step has made no update.
    fn tell_left_out(&self, report: &StepReport) {
        if let (false, Some(scale), Some(next)) =
            (report.is_updated, report.loss_scale, self.state.loss_scaling.scale)
        {
            telemetry::notice(&format!(
                "step {}: gradients are not finite with a loss times {scale}: no update; the next loss is multiplied by {next}",
                self.state.step
            ));
        }
    }

    /// Writes the measurements of a window that ends here.
    fn tell(&mut self, window: &mut Window, progress: &mut Progress, logs: &mut Logs) {
        window.finish(Some(self.started.elapsed()));
        if window.steps() == 0 {
            return;
        }
        let step = self.state.step;
        let scalars = window.scalars();
        self.last_metrics.insert(TRAIN.to_string(), of_model(&scalars));
        self.monitor.see_train(step, &scalars);
        let has_own = self.spec.model.optimizer_def().own_learning_rate().is_some();
        let rate = self.stepper.schedule.at(self.state.next_update());
        let rate = (!has_own).then_some(rate * self.plateau.scale as f32);
        logs.window(window, rate, step);
        let num_bad_records = self.batches.num_bad_records();
        if num_bad_records > 0 {
            logs.scalar("bad_records", num_bad_records as f64, step);
        }
        progress.report(window.status(step));
    }

    /// Compares the times that the processes took for their own parts of a window's steps.
    fn tell_speeds(&self, window: &Window, logs: &mut Logs) -> Result<(), SessionError> {
        let processes = &self.stepper.processes;
        if processes.is_alone() || window.steps() == 0 {
            return Ok(());
        }
        let own = window.seconds() - window.waited_for_others;
        let seconds = of_all(processes, &(own / window.steps() as f64))?;
        let slowest = Slowest::of(&seconds);
        logs.scalar("timing/slowest_rank_seconds", slowest.seconds, self.state.step);
        if slowest.is_straggler() {
            telemetry::notice(&slowest.described(&processes.name(slowest.rank)));
        }
        Ok(())
    }

    /// Makes one update; also returns the time that it waited for its batch.
    fn step(&mut self) -> Result<(StepReport, Duration), SessionError> {
        let waiting = Instant::now();
        let batch = self.batches.next_batch()?.expect("training data repeats without end");
        let waited = waiting.elapsed();
        let (batch, rate_scale) = (Batch::from_host(&batch), self.plateau.scale);
        let mut report =
            self.stepper.train_step(&mut self.state, &batch, rate_scale, &mut self.graphs)?;
        let is_asked = self.stop.load(Ordering::Relaxed);
        self.is_asked = add_up(&self.stepper.processes, &mut report.sums, is_asked)?;
        Ok((report, waited))
    }

    /// Whether the run is to end. Several processes agree on it after each step.
    fn is_asked(&self) -> bool {
        let is_alone = self.stepper.processes.is_alone();
        self.is_asked || is_alone && self.stop.load(Ordering::Relaxed)
    }

    /// Does the work that is due at a pause.
    fn act(
        &mut self,
        stop: Stop,
        window: &Window,
        logs: &mut Logs,
    ) -> Result<Verdict, SessionError> {
        let stopping = stop.stats && self.actions.after_train(&window.scalars());
        let mut verdict = if stopping { Verdict::Stop } else { Verdict::GoOn };
        let evaluates_first = self.spec.counts_steps_from_zero;
        for is_evaluation in [evaluates_first, !evaluates_first] {
            let started = Instant::now();
            let tag = match is_evaluation {
                true if stop.eval => {
                    match self.evaluate(logs)? {
                        Verdict::GoOn => {}
                        ending => verdict = ending,
                    }
                    "timing/evaluate_seconds"
                }
                false if stop.save => {
                    self.save(logs)?;
                    // The time lost to the steps: the copy, and the rest of the previous save.
                    "timing/checkpoint_seconds"
                }
                _ => continue,
            };
            logs.scalar(tag, started.elapsed().as_secs_f64(), self.state.step);
        }
        Ok(verdict)
    }
}
