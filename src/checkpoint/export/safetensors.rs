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

/// A file being written, whose tensors come in the order of the plan.
pub(super) struct Writer {
    file: FileWriter,
}

impl Writer {
    /// Writes the header.
    pub fn create(path: &Path, plan: &[Planned]) -> Result<Self, CheckpointError> {
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
            let entry =
                json!({"dtype": dtype, "shape": tensor.shape, "data_offsets": [begin, end]});
            header.insert(tensor.name.clone(), entry);
        }
        let mut header = serde_json::to_vec(&header).expect("plain data becomes JSON");
        // Spaces, so that the tensors begin at a multiple of eight bytes.
        header.resize(header.len().next_multiple_of(8), b' ');
        let mut writer = Self { file: path.create()? };
        writer.write(&(header.len() as u64).to_le_bytes())?;
        writer.write(&header)?;
        Ok(writer)
    }

    /// Appends bytes of the tensors.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), CheckpointError> {
        let written = self.file.write_all(bytes);
        Ok(written.map_err(|error| StorageError::new("write", self.file.path(), error))?)
    }

    /// Makes the file durable.
    pub fn finish(self) -> Result<(), CheckpointError> {
        Ok(self.file.finish()?)
    }
}
