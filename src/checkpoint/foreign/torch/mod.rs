//! Reads state dictionaries that `torch.save` wrote, as a zip archive or in the format before PyTorch
//! 1.6. Both contain a pickle, which is read as a description of tensors and never executed.

mod accelerate;
mod legacy;
mod machine;
mod pickle;
mod refused;
mod state_dict;
mod training;
mod zip;

use std::collections::BTreeMap;
use std::ops::Range;

pub(crate) use accelerate::open_accelerate;

use super::named::named;
use super::sums::{Compared, Expected, Piece, Sum};
use super::{Foreign, RawTensors};
use crate::array::{DType, is_plausible, num_elements};
use crate::error::CheckpointError;
use crate::format::Format;
use crate::names::hugging_face::Families;
use crate::raw::{RawInfo, RawInfos};
use gimlet_storage::{Path, RangeFile};

use state_dict::{Choose, StateDict, Tensor, state_dict};

/// Maximum number of bytes of a tensor that repeats elements of its storage, as `expand` creates.
const MAX_EXPANDED: u64 = 1 << 30;

/// Maximum number of bytes that are read of a pickle: a pickle of a million tensors is shorter.
const MAX_PICKLE: u64 = 256 << 20;

/// The byte range of a storage in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Extent {
    start: u64,
    length: u64,
    /// CRC-32 of the whole storage, if the file has one.
    crc32: Option<u32>,
}

/// Tensors, and the byte ranges of their storages.
type Contents = (StateDict, BTreeMap<String, Extent>);

/// Opens a file of `torch.save`, and uses the `config.json` beside it. A Trainer's file holds the state of its training too.
///
/// # Errors
/// A damaged file; a pickle that contains anything except tensors and plain containers; a model of no family.
pub(crate) fn open_torch(file: &Path, families: Families) -> Result<Foreign, CheckpointError> {
    let mut raw = TorchFile::open(file)?;
    let (training, numbers) = (raw.dict.training.take(), raw.numbers(families));
    let model = named((file, &file.folder()), Format::Torch, Box::new(raw), families)?;
    match training {
        Some(training) => training.join(model, &numbers),
        None => Ok(model),
    }
}

/// An open file.
#[derive(Debug)]
pub(super) struct TorchFile {
    file: RangeFile,
    /// The tensors of the model, and others.
    infos: [RawInfos; 2],
    dict: StateDict,
    storages: BTreeMap<String, Extent>,
    compared: Compared,
}

impl TorchFile {
    /// Reads the description of the tensors.
    ///
    /// # Errors
    /// A damaged file; a pickle that contains anything except tensors and plain containers.
    pub fn open(path: &Path) -> Result<Self, CheckpointError> {
        Self::choose(path, &state_dict)
    }

    /// Reads the description of the tensors that are chosen from the pickle.
    fn choose(path: &Path, choose: Choose<'_>) -> Result<Self, CheckpointError> {
        let file = path.open_ranges()?;
        let is_zip = file.size() >= 4 && file.read(0..4)? == b"PK\x03\x04";
        let (dict, storages) = match is_zip {
            true => zip::read(&file, choose)?,
            false => legacy::read(&file, choose)?,
        };
        dict.tensors().try_for_each(|(name, tensor)| check(path, name, tensor, &storages))?;
        let info = |(name, tensor): (&String, &Tensor)| {
            (name.clone(), RawInfo { dtype: tensor.dtype, shape: tensor.shape.clone() })
        };
        let infos = [&dict.model, &dict.beside].map(|tensors| tensors.iter().map(info).collect());
        Ok(Self { file, infos, dict, storages, compared: Compared::default() })
    }

    /// The numbers of the model's parameters in its optimizer.
    fn numbers(&self, families: Families) -> BTreeMap<String, usize> {
        training::numbers(&self.dict.order, &self.dict.model, families)
    }

    fn tensor(&self, name: &str) -> &Tensor {
        self.dict.model.get(name).unwrap_or_else(|| &self.dict.beside[name])
    }

    fn extent(&self, tensor: &Tensor) -> Extent {
        self.storages[&tensor.storage]
    }

    fn piece<'a>(&'a self, name: &'a str, extent: Extent) -> Piece<'a> {
        let range = extent.start..extent.start + extent.length;
        let expected = |crc32| Expected { sum: Sum::Crc32(crc32), compared: &self.compared };
        Piece { name, file: &self.file, range, expected: extent.crc32.map(expected) }
    }
}

impl RawTensors for TorchFile {
    fn tensors(&self) -> &RawInfos {
        &self.infos[0]
    }

    fn info(&self, name: &str) -> &RawInfo {
        self.infos[0].get(name).unwrap_or_else(|| &self.infos[1][name])
    }

    fn read_rows(&self, name: &str, rows: Range<usize>) -> Result<Vec<u8>, CheckpointError> {
        let tensor = self.tensor(name);
        let size = tensor.dtype.size() as u64;
        let mut shape = tensor.shape.clone();
        let mut start = tensor.offset as u64;
        if let Some(first) = shape.first_mut() {
            *first = rows.len();
            start += (rows.start * tensor.strides[0]) as u64;
        }
        if num_elements(&shape) == 0 {
            return Ok(Vec::new());
        }
        let last: usize =
            shape.iter().zip(&tensor.strides).map(|(extent, stride)| (extent - 1) * stride).sum();
        let extent = self.extent(tensor);
        let end = start + last as u64 + 1;
        let bytes = extent.start + start * size..extent.start + end * size;
        let bytes = self.piece(name, extent).read(bytes)?;
        match is_contiguous(&shape, &tensor.strides) {
            true => Ok(bytes),
            false => Ok(gather(&bytes, &shape, &tensor.strides, tensor.dtype.size())),
        }
    }

    /// Returns each storage once, however many tensors lie in the storage.
    fn pieces(&self) -> Vec<Piece<'_>> {
        let storages = self.dict.tensors().map(|(name, tensor)| (&tensor.storage, name));
        let names: BTreeMap<_, _> = storages.collect();
        names.into_iter().map(|(storage, name)| self.piece(name, self.storages[storage])).collect()
    }

    fn is_same(&self, name: &str, other: &str) -> bool {
        self.tensor(name) == self.tensor(other)
    }
}

/// Checks that a tensor's elements lie in its storage, and the storage in the file.
fn check(
    path: &Path,
    name: &str,
    tensor: &Tensor,
    storages: &BTreeMap<String, Extent>,
) -> Result<(), CheckpointError> {
    let damaged = |reason| Err(CheckpointError::damaged(path, format!("`{name}`: {reason}")));
    let Some(extent) = storages.get(&tensor.storage) else {
        return damaged(format!("its storage `{}` is not in the file", tensor.storage));
    };
    let size = tensor.dtype.size() as u64;
    let (held, most) = (extent.length / size, MAX_EXPANDED / size);
    let Tensor { shape, strides, offset, .. } = tensor;
    let elements = shape.iter().try_fold(1u64, |count, n| count.checked_mul(*n as u64));
    // The position of the last element; empty tensors have none.
    let last = shape.iter().zip(strides).try_fold(*offset as u64, |at, (n, stride)| {
        at.checked_add((*n as u64).saturating_sub(1).checked_mul(*stride as u64)?)
    });
    match (elements, last) {
        // The sizes of the other dimensions still matter to callers that iterate over them.
        (Some(0), _) if !is_plausible(shape, tensor.dtype) => {
            damaged(format!("no machine holds {} of shape {shape:?}", tensor.dtype))
        }
        (Some(0), Some(_)) => Ok(()),
        // A tensor with more elements than its storage is expanded, and may claim any size.
        (Some(elements), Some(last)) if elements <= held.max(most) && last < held => Ok(()),
        _ => damaged(format!(
            "shape {shape:?} with strides {strides:?} from {offset} on does not fit its storage of \
             {held} elements"
        )),
    }
}

fn is_contiguous(shape: &[usize], strides: &[usize]) -> bool {
    let mut expected = 1;
    shape.iter().zip(strides).rev().all(|(extent, stride)| {
        let fits = *extent == 1 || *stride == expected;
        expected *= extent;
        fits
    })
}

/// Copies the elements of a strided tensor in C order.
fn gather(bytes: &[u8], shape: &[usize], strides: &[usize], size: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(num_elements(shape) * size);
    let mut index = vec![0; shape.len()];
    let mut at = 0;
    loop {
        out.extend_from_slice(&bytes[at * size..(at + 1) * size]);
        // Counts up, the last dimension fastest.
        let mut axis = shape.len();
        loop {
            if axis == 0 {
                return out;
            }
            axis -= 1;
            index[axis] += 1;
            at += strides[axis];
            if index[axis] < shape[axis] {
                break;
            }
            at -= strides[axis] * shape[axis];
            index[axis] = 0;
        }
    }
}

/// The type of a storage class.
fn storage_dtype(class: &str) -> Option<DType> {
    let numpy = match class {
        "FloatStorage" => "float32",
        "DoubleStorage" => "float64",
        "HalfStorage" => "float16",
        "BFloat16Storage" => "bfloat16",
        "LongStorage" => "int64",
        "IntStorage" => "int32",
        "ShortStorage" => "int16",
        "CharStorage" => "int8",
        "ByteStorage" => "uint8",
        "BoolStorage" => "bool",
        _ => return None,
    };
    DType::from_name(numpy)
}
