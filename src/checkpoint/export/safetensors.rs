//! Writes a file of safetensors: a header with all sizes, then the tensors one after the other.

use std::io::{self, Write};

use safetensors::tensor::{Metadata, TensorInfo};

use super::model::Named;
use super::tensor_file::TensorFile;
use crate::error::CheckpointError;
use crate::foreign::safetensors_type;
use crate::stored::Stored;

/// Writes the tensors into a file; the caller finishes the file.
pub(super) fn write_file(
    from: &dyn Stored,
    model: &Named,
    mut out: TensorFile,
) -> io::Result<TensorFile> {
    let header = header(from, model).map_err(io::Error::other)?;
    out.write_all(&(header.len() as u64).to_le_bytes())?;
    out.write_all(&header)?;
    for (tensor, _) in model.tensors.values() {
        out.tensor(|out| tensor.write(from, tensor.axes, out))?;
    }
    Ok(out)
}

fn header(from: &dyn Stored, model: &Named) -> Result<Vec<u8>, CheckpointError> {
    let mut infos = Vec::with_capacity(model.tensors.len());
    let mut end = 0;
    for (tensor, _) in model.tensors.values() {
        let begin = end;
        end += tensor.num_bytes();
        let dtype = safetensors_type(tensor.dtype).ok_or_else(|| CheckpointError::Unsupported {
            path: from.path().to_string(),
            reason: format!("safetensors has no type for `{}`: {}", tensor.name, tensor.dtype),
        })?;
        let shape = tensor.out_shape.clone();
        infos.push((tensor.name.clone(), TensorInfo { dtype, shape, data_offsets: (begin, end) }));
    }
    // transformers require this entry.
    let format = [("format".to_string(), "pt".to_string())].into_iter().collect();
    let header = Metadata::new(Some(format), infos).expect("the tensors follow one another");
    let mut header = serde_json::to_vec(&header).expect("plain data becomes JSON");
    // Spaces pad the header, so that the tensors begin at a multiple of eight bytes.
    header.resize(header.len().next_multiple_of(8), b' ');
    Ok(header)
}
