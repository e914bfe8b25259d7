//! The checkpoints of a run.

use std::sync::Arc;

use crate::session::agreement::of_first;
use crate::session::error::SessionError;
use crate::session::inference_evaluation::InferenceEvaluation;
use crate::session::model_dir_lock::ModelDirLock;
use crate::train::checkpointing::{Beside, Checkpoints};
use crate::train::logs::Logs;

use super::Run;

impl Run<'_> {
    /// Saves the best model, unless an earlier process of the run has done so.
    pub(super) fn save_best(&mut self, logs: &mut Logs) -> Result<(), SessionError> {
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

    /// Puts the histories of the actions and the states of rules into the record, unless they include an evaluation that follows
    /// the record's step.
    pub(super) fn note(&mut self) {
        if self.seen_at != Some(self.state.step) {
            self.record.histories = self.actions.histories();
            (self.record.best, self.record.plateau) = (self.best.clone(), self.plateau.clone());
        }
    }

    /// Saves the state, unless it has been saved already.
    pub(super) fn save(&mut self, logs: &mut Logs) -> Result<(), SessionError> {
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
        let (rate_scale, metrics) = (self.plateau.scale, self.last_metrics.clone());
        Ok(Beside { best: None, logs, rate_scale, metrics, gathered })
    }
}
