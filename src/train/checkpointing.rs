//! Saving and restoring: the training state in T5X's layout, and the record that lets a resumed run
//! continue unchanged: its seed, first step, histories of actions and place in the data.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use serde::{Deserialize, Serialize};
use tch::Tensor;

use crate::checkpoint::{
    Best, CheckpointConfig, CheckpointError, DType, Procedure, RUN_FILE, Retention,
    SaveCheckpointConfig, Saver, Saving, Shapes, Share, Stored, arranged, plan_resume,
    remove_stale, restore_newest, resumable_steps, upcycled,
};
use crate::data::DatasetState;
use crate::partition::{Mesh, ProcessError, Processes};
use crate::session::agreement::of_all;
use crate::session::error::SessionError;
use crate::session::state::TrainState;
use crate::session::state_arrays::{copy, fill, shapes};
use crate::session::state_layout::{STEP, TARGET};
use crate::storage::{Path, Unsent};
use crate::telemetry;

use super::actions::Histories;
use super::initial::initial;
use super::monitor::Monitored;
use super::spec::Train;

/// The place in the data. All processes read the same batches and take their rows of them, so that the place
/// does not depend on their number.
const DATA_FILE: &str = "gimlet/train_ds-000-of-001.json";

/// The facts that a resumed run needs to continue unchanged.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunRecord {
    /// The step at which the run began: 0, or that of the checkpoint it was fine-tuned from.
    pub first_step: u64,
    /// Seed of every draw.
    pub seed: u64,
    /// The histories of the actions.
    #[serde(default)]
    pub histories: Histories,
    /// The metric that decides which checkpoints stay, by step.
    #[serde(default)]
    pub monitored: Monitored,
}

/// The restored checkpoint, from which the run continues.
#[derive(Debug)]
pub struct Restored {
    /// The run it belongs to; `None` if another run (or T5X) wrote it.
    pub record: Option<RunRecord>,
    /// The place in the data; `None` if the checkpoint belongs to another run.
    pub data: Option<DatasetState>,
    /// The checkpoint.
    pub path: Path,
}

/// Additional input of a save, beside the state.
#[derive(Debug, Default)]
pub struct Beside {
    /// The ranking of checkpoints, if it matters.
    pub best: Option<Best>,
    /// Logs that must be in the store before the checkpoint is visible there.
    pub logs: Vec<Unsent>,
    /// Arrays that other processes hold parts of, gathered for this save.
    pub gathered: BTreeMap<String, Tensor>,
}

/// The checkpoints of one run.
#[derive(Debug)]
pub struct Checkpoints<'a> {
    model_dir: Path,
    config: &'a CheckpointConfig,
    mesh: &'a Mesh,
    /// This process's part of the work, if there are several.
    share: Option<Share>,
    /// `None` if the run never saves.
    saver: Option<Saver>,
}

impl<'a> Checkpoints<'a> {
    /// The checkpoints in `model_dir`, and this process's share in writing them.
    pub fn new(
        model_dir: &Path,
        config: &'a CheckpointConfig,
        mesh: &'a Mesh,
        share: Option<Share>,
    ) -> Self {
        let saver = |save| Saver::new(saving(model_dir, save, share.clone()));
        let saver = config.save.as_ref().map(saver);
        Self { model_dir: model_dir.clone(), config, mesh, share, saver }
    }

    /// Removes partly written files of dead runs.
    ///
    /// # Errors
    /// The folder cannot be written.
    pub fn clear_stale(&self) -> Result<(), SessionError> {
        for removed in remove_stale(&self.model_dir)? {
            telemetry::notice(&format!("removed {removed}, which an ended run left half-written"));
        }
        Ok(())
    }

    /// Restores the newest whole checkpoint of MODEL_DIR, else the configured one, into `state`. A checkpoint of step
    /// `spec.reset_state_after` gives parameters and step only, and the optimizer's state stays new. Without either, returns
    /// `None` and leaves `state` unchanged.
    ///
    /// # Errors
    /// No whole checkpoint is left, the configured one is missing, or it holds another model. Another process is lost.
    pub fn restore(
        &self,
        state: &mut TrainState,
        processes: &Processes,
        spec: &Train,
    ) -> Result<Option<Restored>, SessionError> {
        let reset_state_after = spec.reset_state_after;
        if let Some(restored) = self.resume(state, processes, reset_state_after)? {
            if restored.data.is_none() {
                let path = &restored.path;
                telemetry::warn(&format!("{path}: no data position: the data starts over"));
            }
            return Ok(Some(restored));
        }
        let Some(config) = &self.config.restore else { return Ok(None) };
        let Some(stored) = initial(config, &spec.model)? else { return Ok(None) };
        let stored = upcycled(arranged(stored, &shapes(state)), config, &shapes(state));
        let needs = needed(state, stored.as_ref(), reset_state_after);
        let plan = config.plan(stored.as_ref(), &needs)?;
        fill(state, stored.as_ref(), &plan, config.dtype.map(DType::from))?;
        for notice in plan.notices() {
            telemetry::notice(&notice);
        }
        let data = match config.restore_dataset {
            Some(true) => Some(self.configured_data(stored.as_ref())?),
            Some(false) | None => None,
        };
        Ok(Some(Restored { record: None, data, path: stored.path().clone() }))
    }

    /// Restores the newest whole checkpoint of MODEL_DIR. Arrays are checked while they are read:
    /// after damage, reading starts over with the checkpoint before, which replaces every array. Each process reads
    /// its parts only, so that all start over with the process that finds damage.
    fn resume(
        &self,
        state: &mut TrainState,
        processes: &Processes,
        reset_state_after: Option<u64>,
    ) -> Result<Option<Restored>, SessionError> {
        check_same_steps(processes, &self.model_dir)?;
        let config = self.config.restore.as_ref();
        let reads_data = config.and_then(|config| config.restore_dataset) != Some(false);
        let restore = |stored: Box<dyn Stored>| {
            let needs = needed(state, stored.as_ref(), reset_state_after);
            let plan = plan_resume(stored.as_ref(), &needs)?;
            let filled = fill(state, stored.as_ref(), &plan, None);
            whole_everywhere(processes, stored.path(), filled)?;
            let record = read_json(stored.as_ref(), RUN_FILE)?;
            let data = match reads_data {
                true => read_json(stored.as_ref(), DATA_FILE)?,
                false => None,
            };
            Ok(Restored { record, data, path: stored.path().clone() })
        };
        let damage = |error: &SessionError| match error {
            SessionError::Checkpoint(error) => error.damage(),
            _ => None,
        };
        let mut skipped = Vec::new();
        let restored = restore_newest(&self.model_dir, &mut skipped, restore, damage);
        skipped.iter().for_each(|skipped| telemetry::warn(&skipped.to_string()));
        restored
    }

    /// Returns the folder of the checkpoints.
    pub fn model_dir(&self) -> &Path {
        &self.model_dir
    }

    /// Whether the run ever saves.
    pub fn saves(&self) -> bool {
        self.saver.is_some()
    }

    /// Copies the state for the checkpoint of its step. The copy is written during the following
    /// steps, and then outdated checkpoints are removed. Waits for the previous save.
    ///
    /// # Errors
    /// Those of the previous save; no part of it is then visible.
    pub fn save(
        &mut self,
        state: &TrainState,
        record: &RunRecord,
        data: &DatasetState,
        beside: Beside,
    ) -> Result<(), SessionError> {
        let is_first = self.share.as_ref().is_none_or(|share| share.rank == 0);
        let Some(saver) = &mut self.saver else { return Ok(()) };
        Ok(saver.save(state.step, beside.best, |snapshot| {
            copy(state, self.mesh, &beside.gathered, snapshot);
            snapshot.extra(RUN_FILE, to_json(record));
            if is_first {
                snapshot.extra(DATA_FILE, to_json(data));
            }
            snapshot.after(beside.logs);
        })?)
    }

    /// Reports a save that has failed in the meantime; never waits.
    ///
    /// # Errors
    /// Those of the save.
    pub fn check(&mut self) -> Result<(), SessionError> {
        Ok(self.saver.as_mut().map_or(Ok(()), Saver::check)?)
    }

    /// Waits for the pending save at the end of a run. Of two errors the run's own is returned,
    /// and the save's becomes a warning.
    ///
    /// # Errors
    /// The run's error, else that of the save.
    pub fn finish<T>(&mut self, outcome: Result<T, SessionError>) -> Result<T, SessionError> {
        if let (Err(SessionError::Processes(_)), Some(share)) = (&outcome, &self.share) {
            share.is_hopeless.store(true, Ordering::Relaxed);
        }
        let saved = self.saver.as_mut().map_or(Ok(()), Saver::wait);
        match (outcome, saved) {
            (outcome, Ok(())) => outcome,
            (Ok(_), Err(error)) => Err(error.into()),
            (Err(first), Err(error)) => {
                telemetry::warn(&error.to_string());
                Err(first)
            }
        }
    }

    /// Returns the place in the data that `restore_dataset` requests.
    fn configured_data(&self, stored: &dyn Stored) -> Result<DatasetState, SessionError> {
        read_json(stored, DATA_FILE)?.ok_or_else(|| {
            SessionError::Unfit(format!(
                "{} has no data position of Gimlet's (`{DATA_FILE}`); T5X's own belong to tf.data: set \
                 utils.RestoreCheckpointConfig.restore_dataset = False",
                stored.path()
            ))
        })
    }
}

/// Returns the arrays that the checkpoint must have.
fn needed(state: &TrainState, stored: &dyn Stored, reset_state_after: Option<u64>) -> Shapes {
    let mut needs = shapes(state);
    if reset_state_after.is_some_and(|reset| stored.step().is_ok_and(|step| step == reset)) {
        needs.retain(|name, _| name.starts_with(TARGET) || name == STEP);
        telemetry::notice_once(
            "the optimizer's state of the checkpoint is left behind, as train.reset_state_after says",
        );
    }
    needs
}

/// Ensures that all processes see the same checkpoints, of which they try one after the other together.
fn check_same_steps(processes: &Processes, model_dir: &Path) -> Result<(), SessionError> {
    if processes.is_alone() {
        return Ok(());
    }
    let steps = of_all(processes, &resumable_steps(model_dir)?)?;
    match steps.iter().position(|other| *other != steps[0]) {
        None => Ok(()),
        Some(rank) => Err(ProcessError::Differ(format!(
            "{} sees the checkpoints of steps {:?} in {model_dir} and process 0 of {:?}: MODEL_DIR must be in a \
             folder that all hosts share, or in a bucket",
            processes.name(rank),
            steps[rank],
            steps[0]
        ))
        .into()),
    }
}

/// Returns the result of reading a checkpoint, or the damage that another process has found in it.
fn whole_everywhere(
    processes: &Processes,
    path: &Path,
    own: Result<(), SessionError>,
) -> Result<(), SessionError> {
    let found = match own {
        Ok(()) => None,
        Err(SessionError::Checkpoint(CheckpointError::Damaged { reason, .. })) => Some(reason),
        Err(error) => return Err(error),
    };
    match of_all(processes, &found)?.into_iter().flatten().next() {
        None => Ok(()),
        Some(reason) => Err(CheckpointError::Damaged { path: path.to_string(), reason }.into()),
    }
}

fn saving(model_dir: &Path, config: &SaveCheckpointConfig, share: Option<Share>) -> Saving {
    let &SaveCheckpointConfig { keep, keep_dataset_checkpoints, .. } = config;
    Saving {
        model_dir: model_dir.clone(),
        target_dtype: config.dtype.map(DType::from),
        compression: config.compression().expect("checked with the configuration"),
        retention: Retention { keep, keep_dataset_checkpoints },
        procedure: Procedure { commit: config.commit, share },
    }
}

fn read_json<T: for<'de> Deserialize<'de>>(
    stored: &dyn Stored,
    file: &str,
) -> Result<Option<T>, CheckpointError> {
    let Some(bytes) = stored.extra(file)? else { return Ok(None) };
    serde_json::from_slice(&bytes).map(Some).map_err(|error| CheckpointError::Damaged {
        path: stored.path().to_string(),
        reason: format!("{file}: {error}"),
    })
}

fn to_json<T: Serialize>(value: &T) -> Vec<u8> {
    serde_json::to_vec(value).expect("plain structs have a JSON form")
}
