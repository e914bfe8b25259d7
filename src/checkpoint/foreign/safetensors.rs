//! Reads files of safetensors: eight bytes of length, a JSON header, and the tensors one after the
//! other.

use std::collections::BTreeMap;
use std::ops::Range;

use safetensors::Dtype;
use safetensors::tensor::Metadata;

use super::sums::Piece;
use super::{MAX_RANK, RawTensors};
use crate::array::DType;
use crate::error::CheckpointError;
use crate::raw::{RawInfo, RawInfos};
use gimlet_storage::{Path, RangeFile};

/// The longest header that the format allows.
const MAX_HEADER: u64 = 100_000_000;

/// The types of the format that are read and written.
const TYPES: [(Dtype, DType); 13] = [
    (Dtype::BOOL, DType::Bool),
    (Dtype::U8, DType::U8),
    (Dtype::I8, DType::I8),
    (Dtype::U16, DType::U16),
    (Dtype::I16, DType::I16),
    (Dtype::U32, DType::U32),
    (Dtype::I32, DType::I32),
    (Dtype::U64, DType::U64),
    (Dtype::I64, DType::I64),
    (Dtype::BF16, DType::Bf16),
    (Dtype::F16, DType::F16),
    (Dtype::F32, DType::F32),
    (Dtype::F64, DType::F64),
];

/// The type of the format for the elements of an array.
pub(crate) fn safetensors_type(dtype: DType) -> Dtype {
    let found = TYPES.iter().find(|(_, ours)| *ours == dtype);
    found.expect("the table has every type").0
}

/// An open file.
#[derive(Debug)]
pub(super) struct SafeTensors {
    file: RangeFile,
    tensors: RawInfos,
    /// Offset of each tensor in the file.
    offsets: BTreeMap<String, u64>,
}

impl SafeTensors {
    /// Opens a file and reads its header.
    ///
    /// # Errors
    /// The file is truncated, or its header does not describe it.
    pub fn open(path: &Path) -> Result<Self, CheckpointError> {
        let file = path.open_ranges()?;
        let (header, start) = read_header(&file)?;
        let (end, size) = (header.data_len() as u64, file.size() - start);
        if end != size {
            let reason = format!("its tensors take {end} bytes, but it holds {size}");
            return Err(CheckpointError::damaged(path, reason));
        }
        let (mut tensors, mut offsets) = (RawInfos::new(), BTreeMap::new());
        for name in header.offset_keys() {
            let tensor = header.info(&name).expect("the header has all its keys");
            let (dtype, shape) = (dtype(path, &name, tensor.dtype)?, tensor.shape.clone());
            let info = RawInfo { dtype, shape };
            if info.num_bytes().is_none() || info.shape.len() > MAX_RANK {
                let reason =
                    format!("`{name}`: no machine holds {dtype} of shape {:?}", info.shape);
                return Err(CheckpointError::damaged(path, reason));
            }
            offsets.insert(name.clone(), start + tensor.data_offsets.0 as u64);
            tensors.insert(name, info);
        }
        Ok(Self { file, tensors, offsets })
    }
}

impl RawTensors for SafeTensors {
    fn tensors(&self) -> &RawInfos {
        &self.tensors
    }

    fn read_rows(&self, name: &str, rows: Range<usize>) -> Result<Vec<u8>, CheckpointError> {
        let row = self.tensors[name].row_bytes() as u64;
        let start = self.offsets[name];
        Ok(self.file.read(start + rows.start as u64 * row..start + rows.end as u64 * row)?)
    }

    fn pieces(&self) -> Vec<Piece<'_>> {
        let mut pieces = Vec::with_capacity(self.tensors.len());
        for (name, info) in &self.tensors {
            let start = self.offsets[name];
            let bytes = info.num_bytes().expect("checked when the file was opened");
            pieces.push(Piece {
                name,
                file: &self.file,
                range: start..start + bytes,
                expected: None,
            });
        }
        pieces
    }
}

/// Reads the header, and the offset of the first tensor. The header's tensors follow one another
/// without gaps and have the bytes of their shapes.
fn read_header(file: &RangeFile) -> Result<(Metadata, u64), CheckpointError> {
    let path = file.path();
    let short =
        || CheckpointError::damaged(path, format!("it ends within its header, at {}", file.size()));
    if file.size() < 8 {
        return Err(short());
    }
    let length = u64::from_le_bytes(file.read(0..8)?.try_into().expect("eight bytes were read"));
    if length > MAX_HEADER {
        let reason = format!("its header claims {length} bytes, at most {MAX_HEADER} are allowed");
        return Err(CheckpointError::damaged(path, reason));
    }
    let start = 8 + length;
    if file.size() < start {
        return Err(short());
    }
    let header = serde_json::from_slice(&file.read(8..start)?);
    let damaged = |error| CheckpointError::damaged(path, format!("its header: {error}"));
    Ok((header.map_err(damaged)?, start))
}

fn dtype(path: &Path, tensor: &str, found: Dtype) -> Result<DType, CheckpointError> {
    let dtype = TYPES.iter().find(|(theirs, _)| *theirs == found).map(|(_, ours)| *ours);
    dtype.ok_or_else(|| CheckpointError::Unsupported {
        path: path.to_string(),
        reason: format!(
            "`{tensor}` is of type {found}, expected floats of 16 bits or more, or integers"
        ),
    })
}
