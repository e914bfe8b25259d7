//! Writes files like `torch.save`: a zip archive of a pickle that names the tensors, and a file with
//! the elements of each storage.

use std::io::{self, Seek, Write};

use zip::result::ZipError;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, DateTime, ZIP64_BYTES_THR, ZipWriter};

use super::model::Named;
use super::pickle::{PickleValue, StorageView};
use super::tensor::Tensor;
use super::tensor_file::TensorFile;
use crate::error::CheckpointError;
use crate::stored::Stored;

/// The folder of all files in the archive; `torch.save` uses the name of the file.
const FOLDER: &str = "archive";

/// Alignment of each file in bytes, so that it can be mapped into memory, and the identifier of the
/// field that fills the space before the file; both are PyTorch's.
const ALIGNMENT: u16 = 64;
const PADDING_FIELD: u16 = 0x4246;

/// Writes the state dictionary of a model into a file; the caller finishes the file.
pub(super) fn write_file(
    from: &dyn Stored,
    model: &Named,
    out: TensorFile,
) -> io::Result<TensorFile> {
    let tensors: Vec<&Tensor> = model.tensors.values().map(|(tensor, _)| tensor).collect();
    if let Some(tensor) = tensors.iter().find(|tensor| !tensor.dtype.is_float()) {
        let (name, dtype) = (&tensor.name, tensor.dtype);
        let reason = format!("`{name}` is of type {dtype}, expected parameters of floats");
        let path = from.path().to_string();
        return Err(io::Error::other(CheckpointError::Unsupported { path, reason }));
    }
    let named = state_dict(model, &tensors).into_iter();
    let named = named.map(|(name, view)| (name, PickleValue::Tensor(view)));
    let storages: Vec<Storage<'_>> = tensors.iter().map(|tensor| (from, *tensor)).collect();
    write_archive(&PickleValue::dict(named), &storages, out)
}

/// Returns every name of the model's tensors, of which those of one tensor share its storage. The storage of a tensor has its
/// place in `tensors` as number.
pub(super) fn state_dict(model: &Named, tensors: &[&Tensor]) -> Vec<(String, StorageView)> {
    let mut named = Vec::new();
    for (index, tensor) in tensors.iter().enumerate() {
        let view = |name: &str| (name.to_string(), StorageView::of(index, tensor));
        named.extend(model.names_of(&tensor.name).into_iter().map(view));
    }
    named
}

/// A storage: the checkpoint and the tensor of it that fills the storage.
pub(super) type Storage<'a> = (&'a dyn Stored, &'a Tensor);

/// Writes an object, and the storages of its tensors in the order of their numbers.
pub(super) fn write_archive<W: Write>(
    object: &PickleValue,
    storages: &[Storage<'_>],
    mut out: W,
) -> io::Result<W> {
    let mut zip = ZipWriter::new_stream(&mut out);
    if let Err(error) = write_entries(object, storages, &mut zip) {
        // Dropping it would write the list of entries, and print an error if the disk is full.
        std::mem::forget(zip);
        return Err(error);
    }
    zip.finish().map_err(io_error)?;
    Ok(out)
}

fn write_entries<W: Write + Seek>(
    object: &PickleValue,
    storages: &[Storage<'_>],
    zip: &mut ZipWriter<W>,
) -> io::Result<()> {
    let texts =
        [("data.pkl", &object.pickled()[..]), ("byteorder", b"little"), ("version", b"3\n")];
    for (name, text) in texts {
        begin(zip, name, text.len())?;
        zip.write_all(text)?;
    }
    for (index, (from, tensor)) in storages.iter().enumerate() {
        begin(zip, &format!("data/{index}"), tensor.num_bytes())?;
        tensor.write(*from, tensor.axes, zip)?;
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
