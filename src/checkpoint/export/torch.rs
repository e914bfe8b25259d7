//! Writes a state dictionary like `torch.save`: a zip archive of a pickle that names the tensors,
//! and a file with the elements of each tensor.

use std::io::{self, Seek, Write};

use zip::result::ZipError;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, DateTime, ZIP64_BYTES_THR, ZipWriter};

use super::model::Model;
use super::tensor::Tensor;
use super::tensor_file::TensorFile;
use crate::array::DType;
use crate::error::CheckpointError;
use crate::stored::Stored;

/// The folder of all files in the archive; `torch.save` uses the name of the file.
const FOLDER: &str = "archive";

/// Alignment of each file in bytes, so that it can be mapped into memory, and the identifier of the
/// field that fills the space before the file; both are PyTorch's.
const ALIGNMENT: u16 = 64;
const PADDING_FIELD: u16 = 0x4246;

/// Writes the tensors into a file; the caller finishes the file.
pub(super) fn write_file(
    from: &dyn Stored,
    model: &Model,
    mut out: TensorFile,
) -> io::Result<TensorFile> {
    let mut tensors = model.tensors.values().map(|(tensor, _)| tensor);
    if let Some(tensor) = tensors.find(|tensor| storage_class(tensor.dtype).is_none()) {
        let (name, dtype) = (&tensor.name, tensor.dtype);
        let reason = format!("`{name}` is of type {dtype}, expected parameters of floats");
        let path = from.path().to_string();
        return Err(io::Error::other(CheckpointError::Unsupported { path, reason }));
    }
    let mut zip = ZipWriter::new_stream(&mut out);
    if let Err(error) = write_entries(from, model, &mut zip) {
        // Dropping it would write the list of entries, and print an error if the disk is full.
        std::mem::forget(zip);
        return Err(error);
    }
    zip.finish().map_err(io_error)?;
    Ok(out)
}

fn write_entries<W: Write + Seek>(
    from: &dyn Stored,
    model: &Model,
    zip: &mut ZipWriter<W>,
) -> io::Result<()> {
    let texts = [("data.pkl", &pickle(model)[..]), ("byteorder", b"little"), ("version", b"3\n")];
    for (name, text) in texts {
        begin(zip, name, text.len())?;
        zip.write_all(text)?;
    }
    for (index, (tensor, _)) in model.tensors.values().enumerate() {
        begin(zip, &format!("data/{index}"), tensor.num_bytes())?;
        tensor.write(from, tensor.axes, zip)?;
    }
    Ok(())
}

/// Begins a file of some bytes.
fn begin<W: Write + Seek>(zip: &mut ZipWriter<W>, name: &str, size: usize) -> io::Result<()> {
    let options = SimpleFileOptions::default()
        .compression_method(CompressionMethod::Stored)
        .last_modified_time(DateTime::default())
        .with_alignment_and_header_id(ALIGNMENT, PADDING_FIELD)
        .large_file(size as u64 >= ZIP64_BYTES_THR);
    zip.start_file(format!("{FOLDER}/{name}"), options).map_err(io_error)
}

fn io_error(error: ZipError) -> io::Error {
    match error {
        ZipError::Io(error) => error,
        error => io::Error::other(error),
    }
}

/// The dictionary, in pickle's protocol 2.
fn pickle(model: &Model) -> Vec<u8> {
    let mut out = b"\x80\x02}(".to_vec();
    for (index, (tensor, _)) in model.tensors.values().enumerate() {
        for name in model.names_of(&tensor.name) {
            put_text(&mut out, name);
            put_tensor(&mut out, tensor, index);
        }
    }
    out.extend(b"u.");
    out
}

/// Appends a call of the function that builds a tensor from a storage, which the reader finds by
/// its number.
fn put_tensor(out: &mut Vec<u8>, tensor: &Tensor, index: usize) {
    let shape = &tensor.out_shape;
    let strides: Vec<usize> =
        (1..=shape.len()).map(|axis| shape[axis..].iter().product()).collect();
    out.extend(b"ctorch._utils\n_rebuild_tensor_v2\n((");
    put_text(out, "storage");
    let class = storage_class(tensor.dtype).expect("checked before anything is written");
    out.extend(format!("ctorch\n{class}\n").bytes());
    put_text(out, &index.to_string());
    put_text(out, "cpu");
    put_number(out, shape.iter().product());
    out.extend(b"tQ");
    put_number(out, 0);
    for sizes in [shape, &strides] {
        out.push(b'(');
        sizes.iter().for_each(|size| put_number(out, *size));
        out.push(b't');
    }
    // No gradient, and no hooks.
    out.extend(b"\x89ccollections\nOrderedDict\n)RtR");
}

fn put_text(out: &mut Vec<u8>, text: &str) {
    out.push(b'X');
    out.extend(u32::try_from(text.len()).expect("names are short").to_le_bytes());
    out.extend(text.bytes());
}

fn put_number(out: &mut Vec<u8>, number: usize) {
    match i32::try_from(number) {
        Ok(number) => {
            out.push(b'J');
            out.extend(number.to_le_bytes());
        }
        Err(_) => {
            out.extend([0x8a, 8]);
            out.extend((number as u64).to_le_bytes());
        }
    }
}

/// The class of a storage of floats.
fn storage_class(dtype: DType) -> Option<&'static str> {
    match dtype {
        DType::Bf16 => Some("BFloat16Storage"),
        DType::F16 => Some("HalfStorage"),
        DType::F32 => Some("FloatStorage"),
        DType::F64 => Some("DoubleStorage"),
        _ => None,
    }
}
