//! Writes a file of safetensors: a header with all sizes, then the tensors one after the other.

use std::io::{self, Write};

use safetensors::tensor::{Metadata, TensorInfo};

use super::model::Named;
use super::tensor_file::TensorFile;
use crate::array::DType;
use crate::foreign::safetensors_type;
use crate::stored::Stored;

/// Writes the tensors into a file; the caller finishes the file.
pub(super) fn write_file(
    from: &dyn Stored,
    model: &Named,
    mut out: TensorFile,
) -> io::Result<TensorFile> {
    out.write_all(&header(model))?;
    for (tensor, _) in model.tensors.values() {
        out.tensor(|out| tensor.write(from, tensor.axes, out))?;
    }
    Ok(out)
}

fn header(model: &Named) -> Vec<u8> {
    let tensors = model.tensors.values().map(|(tensor, _)| {
        let shape = tensor.out_shape.clone();
        (tensor.name.clone(), tensor.dtype, shape)
    });
    // transformers require this entry.
    safetensors_header(tensors, &[("format", "pt")])
}

/// Returns the beginning of a file of safetensors: the length of a header in eight bytes, and the header. Tensors follow one
/// another in this order, each as little-endian numbers in C order. `metadata` are texts for the reader.
pub fn safetensors_header(
    tensors: impl Iterator<Item = (String, DType, Vec<usize>)>,
    metadata: &[(&str, &str)],
) -> Vec<u8> {
    let mut end = 0;
    let infos = tensors.map(|(name, dtype, shape)| {
        let begin = end;
        end += shape.iter().product::<usize>() * dtype.size();
        let dtype = safetensors_type(dtype);
        (name, TensorInfo { dtype, shape, data_offsets: (begin, end) })
    });
    let infos = infos.collect();
    let metadata = metadata.iter().map(|(name, text)| (name.to_string(), text.to_string()));
    let metadata = metadata.collect();
    let header = Metadata::new(Some(metadata), infos).expect("the tensors follow one another");
    let mut bytes = vec![0; 8];
    serde_json::to_writer(&mut bytes, &header).expect("plain data becomes JSON");
    // Spaces pad the header, so that the tensors begin at a multiple of eight bytes.
    bytes.resize(bytes.len().next_multiple_of(8), b' ');
    let length = bytes.len() as u64 - 8;
    bytes[..8].copy_from_slice(&length.to_le_bytes());
    bytes
}
