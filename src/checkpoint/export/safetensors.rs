//! Writes a file of safetensors: all sizes first, then the tensors one after the other.

use std::io::Write;

use serde_json::{Map, json};

use crate::checkpoint::array::{DType, num_elements};
use crate::checkpoint::error::CheckpointError;
use crate::checkpoint::foreign::type_name;
use crate::storage::{FileWriter, Path, StorageError};

/// A tensor that will follow.
pub(super) struct Planned {
    pub name: String,
    pub dtype: DType,
    pub shape: Vec<usize>,
}

/// Begins a file with its header; the tensors follow in the order of the plan.
pub(super) fn begin(path: &Path, plan: &[Planned]) -> Result<FileWriter, CheckpointError> {
    let mut header = Map::new();
    // transformers asks for it.
    header.insert("__metadata__".to_string(), json!({"format": "pt"}));
    let mut end = 0;
    for tensor in plan {
        let begin = end;
        end += (num_elements(&tensor.shape) * tensor.dtype.size()) as u64;
        let dtype = type_name(tensor.dtype).ok_or_else(|| CheckpointError::Unsupported {
            path: path.to_string(),
            reason: format!("safetensors has no type for `{}`: {}", tensor.name, tensor.dtype),
        })?;
        let entry = json!({"dtype": dtype, "shape": tensor.shape, "data_offsets": [begin, end]});
        header.insert(tensor.name.clone(), entry);
    }
    let mut header = serde_json::to_vec(&header).expect("plain data becomes JSON");
    // Spaces, so that the tensors begin at a multiple of eight bytes.
    header.resize(header.len().next_multiple_of(8), b' ');
    let mut file = path.create()?;
    let length = (header.len() as u64).to_le_bytes();
    let written = file.write_all(&length).and_then(|()| file.write_all(&header));
    written.map_err(|error| StorageError::new("write", path, error))?;
    Ok(file)
}
