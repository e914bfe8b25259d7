//! The evaluations of a run, and the rules that look at their results.

use crate::session::error::SessionError;
use crate::session::eval_context::EvalContext;
use crate::session::held_out::MetricsByTask;
use crate::session::state::TrainState;
use crate::session::unfinished::Unfinished;
use crate::telemetry;
use crate::train::last_evaluation::LastEvaluation;
use crate::train::logs::Logs;
use crate::train::trainer_log::{VALID, validated};

use super::{Run, Verdict};

impl Run<'_> {
    /// Evaluates, unless asked to end; then the process that continues the run does it.
    pub(super) fn evaluate(&mut self, logs: &mut Logs) -> Result<Verdict, SessionError> {
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
        self.graphs.forget();
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
    pub(super) fn react(
        &mut self,
        evaluation: &LastEvaluation,
        logs: &mut Logs,
    ) -> Result<Verdict, SessionError> {
        self.note();
        self.seen_at = Some(evaluation.step);
        self.monitor.see_evaluation(evaluation);
        self.last_metrics.insert(VALID.to_string(), validated(evaluation).collect());
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

    /// Lowers the learning rate if evaluations no longer improve.
    fn see_plateau(&mut self, evaluation: &LastEvaluation) -> Result<(), SessionError> {
        let Some(rule) = &self.spec.reduce_on_plateau else { return Ok(()) };
        let value = evaluation.metric("gimlet.ReduceLROnPlateau.metric", &rule.metric)?;
        let (update, old) = (self.state.next_update(), self.plateau.scale);
        rule.see(&mut self.plateau, value, f64::from(self.stepper.schedule.at(update)));
        if self.plateau.scale != old {
            let (step, scale) = (evaluation.step, self.plateau.scale);
            telemetry::notice(&format!(
                "step {step}: the learning rate is now multiplied by {scale}"
            ));
        }
        Ok(())
    }
}
