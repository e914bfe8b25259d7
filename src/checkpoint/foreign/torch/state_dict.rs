//! Finds the state dictionary among a pickle's values: the root, or a dictionary that training
//! scripts save under a usual name, beside which a Trainer's state lies.

use std::collections::BTreeMap;

use super::machine::{Machine, Value};
use super::refused::Refused;
use super::training::Training;
use crate::array::DType;
use crate::error::CheckpointError;
use gimlet_storage::{Path, StorageError};

/// Keys under which scripts keep the model beside the optimizer and counters.
const MODEL_KEYS: [&str; 4] = ["model_state_dict", "state_dict", "model", "module"];

/// A tensor: elements of a storage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Tensor {
    /// The storage's name in the file.
    pub storage: String,
    /// The type of the elements.
    pub dtype: DType,
    /// Number of elements of the storage before the first element.
    pub offset: usize,
    /// Its dimensions.
    pub shape: Vec<usize>,
    /// Distance in elements of the storage between neighbouring indices of each dimension.
    pub strides: Vec<usize>,
}

impl Tensor {
    /// Describes a tensor of the machine.
    pub fn of(machine: &Machine, at: usize) -> Self {
        let tensor = &machine.tensors[at];
        let storage = &machine.storages[tensor.storage];
        Self {
            storage: storage.key.clone(),
            dtype: storage.dtype,
            offset: storage.offset.saturating_add(tensor.offset),
            shape: tensor.shape.clone(),
            strides: tensor.strides.clone(),
        }
    }
}

/// The tensors of a pickle.
#[derive(Debug, Default)]
pub(super) struct StateDict {
    /// Those of the model.
    pub model: BTreeMap<String, Tensor>,
    /// The names of the model's tensors in the order of the pickle.
    pub order: Vec<String>,
    /// Those of a Trainer's state, by names that no tensor of a model has.
    pub beside: BTreeMap<String, Tensor>,
    /// The meaning of the tensors beside the model, if a Trainer has saved the file.
    pub training: Option<Training>,
}

impl StateDict {
    /// All tensors.
    pub fn tensors(&self) -> impl Iterator<Item = (&String, &Tensor)> {
        self.model.iter().chain(&self.beside)
    }
}

/// Chooses what is read of a pickle.
pub(super) type Choose<'a> =
    &'a dyn Fn(&Path, &Machine, &Value) -> Result<StateDict, CheckpointError>;

/// The tensors of the state dictionary in a pickle, and those of a Trainer's state.
pub(super) fn state_dict(
    path: &Path,
    machine: &Machine,
    root: &Value,
) -> Result<StateDict, CheckpointError> {
    let other =
        |reason: String| Err(CheckpointError::NotACheckpoint { path: path.to_string(), reason });
    let Value::Dict(root) = *root else {
        return other(format!("it holds {}, expected a dict of tensors", root.kind()));
    };
    let pairs = &machine.dicts[root];
    let inner = MODEL_KEYS.iter().find_map(|key| {
        let found = pairs.iter().find(|(name, _)| name.text() == Some(key));
        let Some((_, Value::Dict(inner))) = found else { return None };
        Some(tensors(machine, *inner)).filter(|tensors| !tensors.is_empty())
    });
    let found = inner.unwrap_or_else(|| tensors(machine, root));
    if !found.is_empty() {
        let order = found.iter().map(|(name, _)| name.clone()).collect();
        let mut dict =
            StateDict { model: found.into_iter().collect(), order, ..StateDict::default() };
        dict.training = Training::of(path, machine, root, &mut dict.beside)?;
        if let Some(name) = dict.beside.keys().find(|name| dict.model.contains_key(*name)) {
            return Err(CheckpointError::damaged(path, format!("`{name}` is there twice")));
        }
        return Ok(dict);
    }
    let keys: Vec<String> =
        pairs.iter().filter_map(|(key, _)| key.text()).take(8).map(|k| format!("`{k}`")).collect();
    let keys = if keys.is_empty() { "nothing".to_string() } else { keys.join(", ") };
    other(format!("its dict holds {keys}, expected tensors, or a state dictionary as `model`"))
}

/// Returns the tensors directly in a dict, in its order; numbers beside them are not part of a model.
pub(super) fn tensors(machine: &Machine, dict: usize) -> Vec<(String, Tensor)> {
    let tensor = |(key, value): &(Value, Value)| match (key, value) {
        (Value::Str(name), Value::Tensor(at)) => Some((name.to_string(), Tensor::of(machine, *at))),
        _ => None,
    };
    machine.dicts[dict].iter().filter_map(tensor).collect()
}

/// Converts the reason for refusing a pickle to the error of its file.
pub(super) fn refused(path: &Path, reason: Refused) -> CheckpointError {
    match reason {
        Refused::Damaged(reason) => CheckpointError::damaged(path, reason),
        Refused::Unsupported(reason) => {
            CheckpointError::Unsupported { path: path.to_string(), reason }
        }
        Refused::Io(error) => StorageError::new("read", path, error).into(),
    }
}
