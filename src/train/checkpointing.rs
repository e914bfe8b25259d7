//! Saving and restoring: the training state in T5X's layout, and the record that lets a resumed run
//! continue unchanged.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use serde::Serialize;
use tch::Tensor;

use crate::checkpoint::{
    BEST_DIR, Best, CheckpointError, DType, LOSS_SCALING_FILE, LossScaling, NumpyFiles,
    PARAM_STATES, Procedure, RUN_FILE, Retention, SaveCheckpointConfig, SaveFormat, Saver, Saving,
    Share, best_trainer_file, checkpoint_dir, open, remove_stale, resumable_steps, trainer_file,
};
use crate::data::DatasetState;
use crate::partition::{Mesh, ProcessError, Processes};
use crate::session::agreement::of_all;
use crate::session::error::SessionError;
use crate::session::given_rows::GivenParams;
use crate::session::state::TrainState;
use crate::session::state_arrays::{copy, copy_numpy, fill, gather, shapes};
use crate::session::state_layout::state_shapes;
use crate::storage::{Path, Unsent};
use crate::telemetry;

use super::beginning::{Beginning, newest_own};
use super::record::{DATA_FILE, RunRecord, read_json};
use super::spec::Train;
use super::trainer_forms::TrainerForms;

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

impl From<Beginning> for Restored {
    fn from(begun: Beginning) -> Self {
        let path = begun.stored.path().clone();
        Self { record: begun.record, data: begun.data, path }
    }
}

/// Additional input of a save, beside the state.
#[derive(Debug)]
pub struct Beside {
    /// The ranking of checkpoints, if it matters.
    pub best: Option<Best>,
    /// Logs that must be in the store before the checkpoint is visible there.
    pub logs: Vec<Unsent>,
    /// The factor of the learning rate by a rule for plateaus.
    pub rate_scale: f64,
    /// The last metrics of training and of validations.
    pub metrics: BTreeMap<String, BTreeMap<String, f64>>,
    /// Arrays that other processes hold parts of, gathered for this save.
    pub gathered: BTreeMap<String, Tensor>,
}

/// The checkpoints of one run.
#[derive(Debug)]
pub struct Checkpoints<'a> {
    model_dir: Path,
    /// Whether these are the best model so far, of which there is one.
    is_best: bool,
    format: SaveFormat,
    mesh: &'a Mesh,
    /// This process's part of the work, if there are several.
    share: Option<Share>,
    /// `None` if the run never saves.
    saver: Option<Saver>,
    /// The parameters that are written as files of numpy's too.
    numpy: NumpyFiles,
    /// The descriptions for a Trainer's files, if the run writes those.
    forms: Option<Arc<TrainerForms>>,
}

impl<'a> Checkpoints<'a> {
    /// The checkpoints of a run in `model_dir`, and this process's share in writing them.
    ///
    /// # Errors
    /// The run writes a Trainer's files, and a schedule of it has no value.
    pub fn new(
        model_dir: &Path,
        spec: &Train,
        mesh: &'a Mesh,
        share: Option<Share>,
    ) -> Result<Self, SessionError> {
        let save = spec.checkpoint_cfg.save.as_ref();
        let format = save.map(|save| save.format).unwrap_or_default();
        let saver = save.map(|save| Saver::new(saving(model_dir, save, share.clone())));
        let is_trainer = format == SaveFormat::Trainer;
        let forms = is_trainer.then(|| TrainerForms::of(spec).map(Arc::new)).transpose()?;
        let model_dir = model_dir.clone();
        let numpy = save.map(SaveCheckpointConfig::numpy_files).transpose();
        let numpy = numpy.map_err(SessionError::Unfit)?.unwrap_or_default();
        Ok(Self { model_dir, is_best: false, format, mesh, share, saver, numpy, forms })
    }

    /// The best model of the same run, if the run saves it: the only checkpoint in a folder of MODEL_DIR, or a Trainer's file.
    pub fn best(&self, spec: &Train) -> Self {
        let (model_dir, keep) = match self.format {
            SaveFormat::T5x => (self.model_dir.join(BEST_DIR), Some(1)),
            SaveFormat::Trainer => (self.model_dir.clone(), None),
        };
        let saves = spec.best.as_ref().is_some_and(|best| best.save);
        let saver = spec.checkpoint_cfg.save.as_ref().filter(|_| saves).map(|save| {
            let save = SaveCheckpointConfig { keep, ..save.clone() };
            Saver::new(saving(&model_dir, &save, self.share.clone()))
        });
        let (share, forms) = (self.share.clone(), self.forms.clone());
        let (format, mesh, numpy) = (self.format, self.mesh, NumpyFiles::default());
        Self { model_dir, is_best: true, format, mesh, share, saver, numpy, forms }
    }

    /// Removes partly written files of dead runs, if the run saves.
    ///
    /// # Errors
    /// The folder cannot be written.
    pub fn clear_stale(&self) -> Result<(), SessionError> {
        if self.saver.is_none() {
            return Ok(());
        }
        for removed in remove_stale(&self.model_dir)? {
            telemetry::notice(&format!("removed {removed}, which an ended run left half-written"));
        }
        Ok(())
    }

    /// Restores the newest whole checkpoint of MODEL_DIR, else the configured one, into `state`. Without either, returns
    /// `None`. Rows that neither has, and whose values arrays give, get these, as far as they are not drawn by `seed`.
    ///
    /// # Errors
    /// No whole checkpoint is left, the configured one is missing, or it holds another model. Such an array does not fit.
    /// Another process is lost.
    pub fn restore(
        &self,
        spec: &Train,
        (state, seed): (&mut TrainState, u64),
        processes: &Processes,
    ) -> Result<Option<Restored>, SessionError> {
        debug_assert_eq!(
            state_shapes(&spec.model),
            Ok(shapes(state)),
            "a dry run foresees the state"
        );
        if let Some(restored) = self.resume(spec, state, processes)? {
            if restored.data.is_none() {
                let path = &restored.path;
                telemetry::warn(&format!("{path}: no data position: the data starts over"));
            }
            return Ok(Some(restored));
        }
        let begun = Beginning::configured(spec)?;
        let plan = begun.as_ref().map(|begun| &begun.plan);
        GivenParams::of(&spec.model).new_in(plan).fill(&state.params, seed)?;
        let Some(begun) = begun else { return Ok(None) };
        let dtype = spec.checkpoint_cfg.restore.as_ref().and_then(|config| config.dtype);
        fill(state, begun.stored.as_ref(), &begun.plan, dtype.map(DType::from))?;
        // The scale belongs to the optimizer's state; steps of another run that made no update do not count.
        let restored = loss_scaling(&begun)?;
        if begun.plan.sources.keys().any(|name| name.starts_with(PARAM_STATES)) {
            state.loss_scaling = LossScaling { skipped: 0, ..restored };
        }
        for notice in begun.plan.notices() {
            telemetry::notice(&notice);
        }
        Ok(Some(Restored::from(begun)))
    }

    /// Restores the newest whole checkpoint of MODEL_DIR. Arrays are checked while they are read:
    /// after damage, reading starts over with the checkpoint before, which replaces every array. Each process reads
    /// its parts only, so that all start over with the process that finds damage.
    fn resume(
        &self,
        spec: &Train,
        state: &mut TrainState,
        processes: &Processes,
    ) -> Result<Option<Restored>, SessionError> {
        check_same_steps(processes, &self.model_dir)?;
        newest_own(&self.model_dir, |stored| {
            let path = stored.path().clone();
            let filled = Beginning::own(spec, stored).and_then(|begun| {
                fill(state, begun.stored.as_ref(), &begun.plan, None)?;
                state.loss_scaling = loss_scaling(&begun)?;
                Ok(Restored::from(begun))
            });
            whole_everywhere(processes, &path, filled)
        })
    }

    /// Restores the best model of the run, if it was saved. All processes call it, after the last save.
    ///
    /// # Errors
    /// It is damaged. Another process is lost.
    pub fn restore_best(
        &self,
        spec: &Train,
        state: &mut TrainState,
        processes: &Processes,
    ) -> Result<(), SessionError> {
        // A process that does not write must see it as it was written.
        processes.wait_for_all()?;
        let is_there = match self.format {
            SaveFormat::T5x => self.resume(spec, state, processes)?.is_some(),
            SaveFormat::Trainer => best_trainer_file(&self.model_dir).exists()?,
        };
        if !is_there {
            telemetry::notice("no best model was saved: the last one is evaluated");
        }
        if !is_there || self.format == SaveFormat::T5x {
            return Ok(());
        }
        let path = self.path(state.step);
        let restored = open(&path, &[]).map_err(SessionError::from);
        let restored = restored.and_then(|stored| Beginning::own(spec, stored));
        let restored =
            restored.and_then(|begun| fill(state, begun.stored.as_ref(), &begun.plan, None));
        whole_everywhere(processes, &path, restored)
    }

    /// Returns the folder of the checkpoints.
    pub fn model_dir(&self) -> &Path {
        &self.model_dir
    }

    /// Whether the run saves the state of this step, if asked: a Trainer has none before the first update.
    pub fn saves(&self, step: u64) -> bool {
        self.saver.is_some() && (step > 0 || self.format == SaveFormat::T5x)
    }

    /// Whether the best model is there already. A Trainer's file says its step only, and is written again.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn has_best(&self, step: u64) -> Result<bool, SessionError> {
        Ok(self.format == SaveFormat::T5x && self.path(step).exists()?)
    }

    /// The path of the checkpoint of a step, which must not be 0 for a Trainer's file.
    pub fn path(&self, step: u64) -> Path {
        match self.format {
            SaveFormat::T5x => checkpoint_dir(&self.model_dir, step),
            SaveFormat::Trainer if self.is_best => best_trainer_file(&self.model_dir),
            SaveFormat::Trainer => trainer_file(&self.model_dir, step),
        }
    }

    /// Gathers the arrays that this process saves and does not hold. All processes call it.
    pub fn gather(&self, state: &TrainState) -> BTreeMap<String, Tensor> {
        gather(state, (self.format, &self.numpy), self.mesh)
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
        let (format, forms, numpy) = (self.format, &self.forms, &self.numpy);
        let path = forms.as_ref().map(|_| self.path(state.step));
        let Some(saver) = &mut self.saver else { return Ok(()) };
        Ok(saver.save(state.step, beside.best, |snapshot| {
            copy(state, (self.mesh, format), &beside.gathered, snapshot);
            if let (Some(forms), Some(file)) = (forms, path) {
                snapshot.as_trainer(file, forms.at(state, beside.rate_scale, beside.metrics));
            }
            snapshot.extra(RUN_FILE, to_json(record));
            if state.loss_scaling != LossScaling::default() {
                snapshot.extra(LOSS_SCALING_FILE, to_json(&state.loss_scaling));
            }
            if is_first {
                copy_numpy(state, numpy, &beside.gathered, snapshot);
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
}

/// Reads the scale of the loss that a checkpoint keeps.
fn loss_scaling(begun: &Beginning) -> Result<LossScaling, CheckpointError> {
    Ok(read_json(begun.stored.as_ref(), LOSS_SCALING_FILE)?.unwrap_or_default())
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
fn whole_everywhere<T>(
    processes: &Processes,
    path: &Path,
    own: Result<T, SessionError>,
) -> Result<T, SessionError> {
    let found = match &own {
        Ok(_) => None,
        Err(SessionError::Checkpoint(CheckpointError::Damaged { reason, .. })) => {
            Some(reason.clone())
        }
        Err(_) => return own,
    };
    match of_all(processes, &found)?.into_iter().flatten().next() {
        None => own,
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

fn to_json<T: Serialize>(value: &T) -> Vec<u8> {
    serde_json::to_vec(value).expect("plain structs have a JSON form")
}
