//! Finds the state dictionary among a pickle's values: the root, or a dictionary that training
//! scripts save under a usual name.

use std::collections::BTreeMap;

use super::machine::{Machine, Value};
use super::refused::Refused;
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

/// The tensors of the state dictionary in a pickle.
pub(super) fn state_dict(
    path: &Path,
    machine: &Machine,
    root: &Value,
) -> Result<BTreeMap<String, Tensor>, CheckpointError> {
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
        return Ok(found);
    }
    let keys: Vec<String> =
        pairs.iter().filter_map(|(key, _)| key.text()).take(8).map(|k| format!("`{k}`")).collect();
    let keys = if keys.is_empty() { "nothing".to_string() } else { keys.join(", ") };
    other(format!("its dict holds {keys}, expected tensors, or a state dictionary as `model`"))
}

/// Returns the tensors directly in a dict; numbers beside them are not part of a model.
fn tensors(machine: &Machine, dict: usize) -> BTreeMap<String, Tensor> {
    let tensor = |(key, value): &(Value, Value)| match (key, value) {
        (Value::Str(name), Value::Tensor(at)) => {
            let tensor = &machine.tensors[*at];
            let storage = &machine.storages[tensor.storage];
            let tensor = Tensor {
                storage: storage.key.clone(),
                dtype: storage.dtype,
                offset: storage.offset.saturating_add(tensor.offset),
                shape: tensor.shape.clone(),
                strides: tensor.strides.clone(),
            };
            Some((name.to_string(), tensor))
        }
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
