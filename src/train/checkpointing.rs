//! Saving and restoring: the training state in T5X's layout, and beside it what makes a resumed run
//! the same run: its seed, where it began, what its actions remember and its place in the data.

use serde::{Deserialize, Serialize};
use tch::{Kind, Tensor};

use crate::checkpoint::{
    Array, ArrayView, CheckpointConfig, CheckpointError, DType, Plan, RestoreCheckpointConfig,
    RestoreMode, Retention, Shapes, Stored, Writer, latest, latest_valid, open, plan_resume,
    remove_stale,
};
use crate::data::DatasetState;
use crate::storage::Path;
use crate::telemetry;

use super::actions::Histories;
use super::error::TrainError;
use super::state::TrainState;

/// Where a checkpoint keeps the run's identity.
const RUN_FILE: &str = "gimlet/run.json";

/// The count of updates in T5X's tree.
const STEP: &str = "state/step";

/// What makes a resumed run the same run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunRecord {
    /// The step at which the run began: 0, or that of the checkpoint it was fine-tuned from.
    pub first_step: u64,
    /// Seed of every draw.
    pub seed: u64,
    /// What the actions remember.
    #[serde(default)]
    pub histories: Histories,
}

/// What was found to go on from.
#[derive(Debug)]
pub struct Restored {
    /// The run it belongs to; `None` where another run (or T5X) wrote it.
    pub record: Option<RunRecord>,
    /// The place in the data; `None` where the checkpoint is not this run's.
    pub data: Option<DatasetState>,
    /// The checkpoint.
    pub path: Path,
}

/// The checkpoints of one run.
#[derive(Debug)]
pub struct Checkpoints<'a> {
    model_dir: Path,
    config: &'a CheckpointConfig,
    /// `(index, count)` of this process's share of the data.
    shard: (usize, usize),
}

impl<'a> Checkpoints<'a> {
    /// The checkpoints in `model_dir`.
    pub fn new(model_dir: &Path, config: &'a CheckpointConfig, shard: (usize, usize)) -> Self {
        Self { model_dir: model_dir.clone(), config, shard }
    }

    /// Makes the folder, and removes what dead runs left half-written in it.
    ///
    /// # Errors
    /// The folder cannot be written.
    pub fn prepare(&self) -> Result<(), TrainError> {
        self.model_dir.create_dir_all()?;
        for removed in remove_stale(&self.model_dir)? {
            telemetry::notice(&format!("removed {removed}, which an ended run left half-written"));
        }
        Ok(())
    }

    /// Restores the newest whole checkpoint of MODEL_DIR, else the one that the configuration
    /// names, into `state`; `None` where there is neither, and `state` is as it was.
    ///
    /// # Errors
    /// No whole checkpoint is left, the configured one is missing, or it holds another model.
    pub fn restore(&self, state: &mut TrainState) -> Result<Option<Restored>, TrainError> {
        let found = latest_valid(&self.model_dir)?;
        for skipped in &found.skipped {
            telemetry::warn(&skipped.to_string());
        }
        if let Some(stored) = found.checkpoint {
            let plan = plan_resume(stored.as_ref(), &shapes(state))?;
            fill(state, stored.as_ref(), &plan, None)?;
            let record = read_json(stored.as_ref(), RUN_FILE)?;
            let data = read_json(stored.as_ref(), &self.data_file())?;
            return Ok(Some(Restored { record, data, path: stored.path().clone() }));
        }
        let Some(config) = &self.config.restore else { return Ok(None) };
        let Some(stored) = configured(config)? else { return Ok(None) };
        let plan = config.plan(stored.as_ref(), &shapes(state))?;
        fill(state, stored.as_ref(), &plan, config.dtype.map(DType::from))?;
        if let Some(notice) = plan.notice() {
            telemetry::notice(&notice);
        }
        let data = match config.restore_dataset {
            true => read_json(stored.as_ref(), &self.data_file())?,
            false => None,
        };
        Ok(Some(Restored { record: None, data, path: stored.path().clone() }))
    }

    /// The folder they lie in.
    pub fn model_dir(&self) -> &Path {
        &self.model_dir
    }

    /// Whether anything is ever saved.
    pub fn saves(&self) -> bool {
        self.config.save.is_some()
    }

    /// Writes the checkpoint of the state's step and removes those that are not kept.
    ///
    /// # Errors
    /// The disk; nothing is half visible then.
    pub fn save(
        &self,
        state: &TrainState,
        record: &RunRecord,
        data: &DatasetState,
    ) -> Result<(), TrainError> {
        let Some(config) = &self.config.save else { return Ok(()) };
        let writer = Writer::create(&self.model_dir, state.step, config.dtype.map(DType::from))?;
        for (name, tensor) in arrays(state) {
            with_view(tensor, |view| writer.array(&name, view))?;
        }
        let step = i32::try_from(state.step).expect("T5X counts steps in 32 bits");
        writer.array(STEP, Array::scalar_i32(step).view())?;
        writer.extra(RUN_FILE, &to_json(record))?;
        writer.extra(&self.data_file(), &to_json(data))?;
        writer.commit()?;
        let keep_dataset_checkpoints = config.keep_dataset_checkpoints;
        Retention { keep: config.keep, keep_dataset_checkpoints }.apply(&self.model_dir)?;
        Ok(())
    }

    fn data_file(&self) -> String {
        let (index, count) = self.shard;
        format!("gimlet/train_ds-{index:03}-of-{count:03}.json")
    }
}

/// Opens the checkpoint that the configuration names, if it names one.
fn configured(config: &RestoreCheckpointConfig) -> Result<Option<Box<dyn Stored>>, TrainError> {
    // `check` has seen that there is at most one.
    let Some(path) = config.path.0.first() else { return Ok(None) };
    let path = Path::parse(path)?;
    if config.mode == RestoreMode::Specific {
        return Ok(Some(open(&path)?));
    }
    match latest(&path)? {
        Some(newest) => Ok(Some(open(&newest)?)),
        None => {
            telemetry::notice(&format!("no checkpoint in {path}: starting from scratch"));
            Ok(None)
        }
    }
}

/// Every float array of the state under T5X's name.
fn arrays(state: &TrainState) -> impl Iterator<Item = (String, &Tensor)> {
    let params = state.params.iter().map(|(name, tensor)| (format!("target/{name}"), tensor));
    let slots = state.optimizer.arrays();
    params.chain(slots.map(|(name, tensor)| (format!("state/param_states/{name}"), tensor)))
}

fn shapes(state: &TrainState) -> Shapes {
    let shape = |tensor: &Tensor| tensor.size().iter().map(|&extent| extent as usize).collect();
    let step = std::iter::once((STEP.to_string(), Vec::new()));
    arrays(state).map(|(name, tensor)| (name, shape(tensor))).chain(step).collect()
}

/// Copies what the plan names into the state, one array at a time.
fn fill(
    state: &mut TrainState,
    stored: &dyn Stored,
    plan: &Plan,
    dtype: Option<DType>,
) -> Result<(), TrainError> {
    for (name, source) in &plan.sources {
        let mut array = stored.read(source)?;
        if let Some(parameter) = name.strip_prefix("target/") {
            if let Some(dtype) = dtype {
                array = array.cast(dtype);
            }
            let tensor = to_tensor(name, &array)?;
            tch::no_grad(|| state.params.get(parameter).shallow_clone().copy_(&tensor));
        } else if let Some(slot) = name.strip_prefix("state/param_states/") {
            let tensor = to_tensor(name, &array)?;
            let restored = state.optimizer.restore(slot, &tensor);
            restored.map_err(|error| TrainError::Unfit(error.to_string()))?;
        }
    }
    if plan.sources.contains_key(STEP) {
        state.step = stored.step()?;
    }
    Ok(())
}

fn to_tensor(name: &str, array: &Array) -> Result<Tensor, TrainError> {
    if !array.dtype.is_float() {
        let message = format!("`{name}` is {}, expected floats", array.dtype);
        return Err(TrainError::Unfit(message));
    }
    let shape: Vec<i64> = array.shape.iter().map(|&extent| extent as i64).collect();
    let array = array.view().cast_bytes(DType::F32);
    Ok(Tensor::from_data_size(&array, &shape, Kind::Float))
}

/// Shows a float32 tensor as bytes on the host; one on the CPU is not copied.
fn with_view<R>(tensor: &Tensor, read: impl FnOnce(ArrayView<'_>) -> R) -> R {
    let tensor = tensor.detach().to_device(tch::Device::Cpu).to_kind(Kind::Float).contiguous();
    let shape: Vec<usize> = tensor.size().iter().map(|&extent| extent as usize).collect();
    let length = tensor.numel() * DType::F32.size();
    // SAFETY: a contiguous float32 CPU tensor holds `numel` floats from `data_ptr` on, and lives
    // until `read` returns.
    let data = unsafe { std::slice::from_raw_parts(tensor.data_ptr().cast::<u8>(), length) };
    read(ArrayView { dtype: DType::F32, shape: &shape, data })
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
