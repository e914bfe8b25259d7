//! The loop: T5X's `train`, from an evaluated spec to the last checkpoint.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::checkpoint::SaveCheckpointConfig;
use crate::data::{BatchIterator, DatasetOptions, DatasetState, get_dataset};
use crate::metrics::sum;
use crate::models::Batch;
use crate::session::agreement::{add_up, check_same, of_all, of_first};
use crate::session::context::{Context, say_partitions};
use crate::session::error::SessionError;
use crate::session::eval_context::EvalContext;
use crate::session::held_out::MetricsByTask;
use crate::session::inference_evaluation::InferenceEvaluation;
use crate::session::model_dir_lock::ModelDirLock;
use crate::session::preflight::Moment;
use crate::session::rank_log;
use crate::session::state::TrainState;
use crate::session::training_evaluation::TrainingEvaluation;
use crate::session::unfinished::Unfinished;
use crate::session::vocabularies::check_vocabularies;
use crate::storage::{Path, Takeover};
use crate::telemetry::{self, Progress};

use super::actions::Actions;
use super::after_training::Trained;
use super::best::BestSoFar;
use super::check::check;
use super::checkpointing::{Beside, Checkpoints};
use super::inputs::training_options;
use super::last_evaluation::LastEvaluation;
use super::logs::Logs;
use super::monitor::Monitor;
use super::periods::{Periods, Stop};
use super::plateau::Plateau;
use super::preflight::preflight;
use super::record::RunRecord;
use super::slowest::Slowest;
use super::spec::Train;
use super::start::{
    Start, check_memory, check_same_data, check_same_start, check_shared, inference_evaluation,
    occupy, occupy_new, refuse_shortage, restore_or_init, share, tell_relative_steps,
    tell_surprises, training_evaluation,
};
use super::step::{StepReport, Stepper};
use super::window::Window;

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
    let checkpoints = Checkpoints::new(&model_dir, spec, mesh, share.clone())?;
    let best_checkpoints = Checkpoints::best(&model_dir, spec, mesh, share)?;
    let start = restore_or_init(spec, context, &checkpoints)?;
    check_same_start(processes, &start)?;
    let Start { state, record, data, resumed } = start;
    let evaluated = || if resumed { LastEvaluation::read(&model_dir) } else { Ok(None) };
    let last_evaluation = of_first(processes, || evaluated().map_err(SessionError::from))?;
    let periods = Periods::of(spec, record.first_step, state.step).validated(state.step)?;
    tell_relative_steps(spec, state.step, &periods);
    let mut actions = Actions::new(spec.actions.as_ref());
    actions.recall(&record.histories);
    let saved = resumed.then_some(state.step);
    let mut run = Run {
        spec,
        stepper: Stepper::new(spec, record.seed, mesh, (&context.axes, processes))?,
        best: record.best.clone(),
        plateau: record.plateau.clone(),
        training_evaluation: training_evaluation(spec, context, &model_dir, state.step)?,
        inference_evaluation: inference_evaluation(spec, context, &model_dir, state.step)?,
        batches: training_batches(spec, context, &record, data)?,
        saved,
        monitor: monitor(spec, &record, saved),
        last_evaluation,
        last_loss: None,
        skips_nan_updates: spec.model.optimizer_def().skips_nan_updates(),
        seen_at: None,
        actions,
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

/// Returns the monitor of a run that continues after the step `saved`.
fn monitor(spec: &Train, record: &RunRecord, saved: Option<u64>) -> Monitor {
    let keep_best = spec.checkpoint_cfg.save.as_ref().and_then(SaveCheckpointConfig::keep_best);
    Monitor::new(keep_best, record.monitored.clone(), saved)
}

fn training_batches(
    spec: &Train,
    context: &Context<'_>,
    record: &RunRecord,
    position: Option<DatasetState>,
) -> Result<BatchIterator, SessionError> {
    let config = &spec.train_dataset_cfg;
    check_vocabularies(&spec.model, config, context.tasks)?;
    // Every process reads whole batches: they are the same for any number of processes.
    let options = DatasetOptions { resume: position, ..training_options(spec, record.seed) };
    let placed = |error| context.tasks.placed(&config.mixture_or_task_name, error);
    let batches = get_dataset(config, context.tasks, options).map_err(placed)?;
    batches.notices().iter().for_each(|notice| telemetry::notice_once(notice));
    Ok(batches)
}

/// A run in progress.
struct Run<'a> {
    spec: &'a Train,
    stepper: Stepper,
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
    last_loss: Option<f64>,
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
        Trained { spec, context, forward, state, best, loss: self.last_loss }.outcome(outcome)
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
            broken = Some(report.sums.get(sum::LOSS))
                .filter(|loss| !loss.is_finite() && !self.skips_nan_updates);
        }
        window.finish(Some(self.started.elapsed()));
        Ok(broken)
    }

    /// Writes the measurements of a window that ends here.
    fn tell(&mut self, window: &mut Window, progress: &mut Progress, logs: &mut Logs) {
        window.finish(Some(self.started.elapsed()));
        if window.steps() == 0 {
            return;
        }
        let step = self.state.step;
        let scalars = window.scalars();
        self.last_loss = scalars.get("loss").copied();
        self.monitor.see_train(step, &scalars);
        let rate = self.stepper.schedule.at(i64::try_from(step).expect("steps fit"));
        logs.window(window, rate * self.plateau.scale as f32, step);
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
        let mut report = self.stepper.train_step(&mut self.state, &batch, rate_scale)?;
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

    /// Evaluates, unless asked to end; then the process that continues the run does it.
    fn evaluate(&mut self, logs: &mut Logs) -> Result<Verdict, SessionError> {
        if let Some(log) = logs.trainer() {
            log.validates(self.state.step);
        }
        match self.measure() {
            Ok(evaluation) => {
                logs.evaluation(&evaluation);
                if self.stepper.processes.is_first() {
                    evaluation.write(self.checkpoints.model_dir())?;
                }
                self.react(&evaluation, logs)
            }
            Err(Unfinished::Asked) => Ok(Verdict::Interrupt),
            Err(Unfinished::Failed(error)) => Err(error),
        }
    }

    fn measure(&mut self) -> Result<LastEvaluation, Unfinished> {
        let TrainState { step, params, .. } = &self.state;
        let params = self.stepper.forward.guarded(*step, || params.whole())?;
        self.stepper.check_axes().map_err(SessionError::from)?;
        let model = EvalContext {
            forward: &self.stepper.forward,
            params: &params,
            step: *step,
            processes: &self.stepper.processes,
            stop: self.stop,
        };
        let step = *step;
        let training = self.training_evaluation.evaluate(&model)?;
        let inference = match &mut self.inference_evaluation {
            Some(inference_evaluation) => inference_evaluation.evaluate(&model)?,
            None => MetricsByTask::new(),
        };
        Ok(LastEvaluation { step, training, inference })
    }

    /// Passes the results of an evaluation to the actions, and to the rules of the best model and of the learning rate.
    fn react(
        &mut self,
        evaluation: &LastEvaluation,
        logs: &mut Logs,
    ) -> Result<Verdict, SessionError> {
        self.note();
        self.seen_at = Some(evaluation.step);
        self.monitor.see_evaluation(evaluation);
        let stopping = self.actions.after_train_eval(&evaluation.training);
        let stopping = self.actions.after_infer_eval(&evaluation.inference) || stopping;
        let stopping = self.see_best(evaluation, logs)? || stopping;
        self.see_plateau(evaluation)?;
        Ok(if stopping { Verdict::Stop } else { Verdict::GoOn })
    }

    /// Saves the model if it is the best so far; returns whether there was none better for too long.
    fn see_best(
        &mut self,
        evaluation: &LastEvaluation,
        logs: &mut Logs,
    ) -> Result<bool, SessionError> {
        let Some(rule) = &self.spec.best else { return Ok(false) };
        let (step, metric) = (evaluation.step, &rule.metric);
        let value = evaluation.metric("gimlet.BestModel.metric", metric)?;
        let improves = rule.see(&mut self.best, value);
        if let Some(log) = logs.trainer() {
            log.best(metric, value, self.best.without_improvement, step);
        }
        if improves {
            telemetry::notice(&format!("step {step}: {metric} is the best so far, {value}"));
            self.save_best(logs)?;
            return Ok(false);
        }
        let count = self.best.without_improvement;
        telemetry::notice(&format!("step {step}: evaluations without a better {metric}: {count}"));
        let is_over = rule.is_over(&self.best);
        if is_over {
            if let Some(log) = logs.trainer() {
                log.stops();
            }
            telemetry::notice(&format!(
                "{metric} has not improved for {count} evaluations: stopping"
            ));
        }
        Ok(is_over)
    }

    /// Saves the best model, unless an earlier process of the run has done so.
    fn save_best(&mut self, logs: &mut Logs) -> Result<(), SessionError> {
        let step = self.state.step;
        let processes = Arc::clone(&self.stepper.processes);
        let is_saved = || self.best_checkpoints.has_best(step);
        if !self.best_checkpoints.saves(step) || of_first(&processes, is_saved)? {
            return Ok(());
        }
        let beside = self.beside(logs)?;
        let data = self.batches.state();
        self.best_checkpoints.save(&self.state, &self.record, &data, beside)?;
        self.tell_saved(&self.best_checkpoints, logs);
        Ok(())
    }

    fn tell_saved(&self, checkpoints: &Checkpoints<'_>, logs: &mut Logs) {
        if let Some(log) = logs.trainer() {
            log.saved(&checkpoints.path(self.state.step));
        }
    }

    /// Lowers the learning rate if evaluations no longer improve.
    fn see_plateau(&mut self, evaluation: &LastEvaluation) -> Result<(), SessionError> {
        let Some(rule) = &self.spec.reduce_on_plateau else { return Ok(()) };
        let value = evaluation.metric("gimlet.ReduceLROnPlateau.metric", &rule.metric)?;
        let (step, old) = (i64::try_from(self.state.step).expect("steps fit"), self.plateau.scale);
        rule.see(&mut self.plateau, value, f64::from(self.stepper.schedule.at(step)));
        if self.plateau.scale != old {
            let (step, scale) = (evaluation.step, self.plateau.scale);
            telemetry::notice(&format!(
                "step {step}: the learning rate is now multiplied by {scale}"
            ));
        }
        Ok(())
    }

    /// Puts the histories of the actions and the states of rules into the record, unless they include an evaluation that follows
    /// the record's step.
    fn note(&mut self) {
        if self.seen_at != Some(self.state.step) {
            self.record.histories = self.actions.histories();
            (self.record.best, self.record.plateau) = (self.best.clone(), self.plateau.clone());
        }
    }

    /// Saves the state, unless it has been saved already.
    fn save(&mut self, logs: &mut Logs) -> Result<(), SessionError> {
        if !self.checkpoints.saves(self.state.step) || self.saved == Some(self.state.step) {
            return Ok(());
        }
        self.occupied.as_ref().map_or(Ok(()), ModelDirLock::check)?;
        self.note();
        self.record.monitored = self.monitor.at_save(self.state.step);
        let beside = Beside { best: self.monitor.best(), ..self.beside(logs)? };
        self.checkpoints.save(&self.state, &self.record, &self.batches.state(), beside)?;
        self.tell_saved(&self.checkpoints, logs);
        self.saved = Some(self.state.step);
        Ok(())
    }

    /// Returns the input of a save beside the state, but for a ranking of checkpoints.
    fn beside(&self, logs: &Logs) -> Result<Beside, SessionError> {
        let logged = logs.unsent().chain(self.training_evaluation.unsent());
        let logs = logged
            .chain(self.inference_evaluation.iter().flat_map(InferenceEvaluation::unsent))
            .collect();
        let gathered =
            self.stepper.guarded(self.state.step, || self.checkpoints.gather(&self.state))?;
        self.stepper.check_axes()?;
        Ok(Beside { best: None, logs, gathered })
    }
}
