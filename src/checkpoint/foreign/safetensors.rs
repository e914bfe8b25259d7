//! Reads files of safetensors: eight bytes of length, a JSON header, and the tensors one after the
//! other.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;

use serde::de::{Error, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::sums::Piece;
use super::{MAX_RANK, RawTensors};
use crate::array::DType;
use crate::error::CheckpointError;
use crate::raw::{RawInfo, RawInfos};
use gimlet_storage::{Path, RangeFile};

/// The longest header that the format allows.
const MAX_HEADER: u64 = 100_000_000;

/// The entry of the header that is not a tensor.
const METADATA: &str = "__metadata__";

/// The types of the format with numpy's names.
const TYPES: [(&str, &str); 12] = [
    ("BOOL", "bool"),
    ("U8", "uint8"),
    ("I8", "int8"),
    ("U16", "uint16"),
    ("I16", "int16"),
    ("U32", "uint32"),
    ("I32", "int32"),
    ("I64", "int64"),
    ("BF16", "bfloat16"),
    ("F16", "float16"),
    ("F32", "float32"),
    ("F64", "float64"),
];

/// The name of a type in the header.
pub(crate) fn type_name(dtype: DType) -> Option<&'static str> {
    TYPES.iter().find(|(_, numpy)| *numpy == dtype.name()).map(|(name, _)| *name)
}

/// An open file.
#[derive(Debug)]
pub(super) struct SafeTensors {
    file: RangeFile,
    tensors: RawInfos,
    /// Offset of each tensor in the file.
    offsets: BTreeMap<String, u64>,
}

#[derive(Deserialize)]
struct Tensor {
    dtype: String,
    shape: Vec<usize>,
    data_offsets: (u64, u64),
}

/// The tensors of a header by name.
struct Header(BTreeMap<String, Tensor>);

impl<'de> Deserialize<'de> for Header {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Tensors)
    }
}

/// Reads the entries one by one; entries that are not tensors are not kept in memory.
struct Tensors;

impl<'de> Visitor<'de> for Tensors {
    type Value = Header;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map of tensors")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Header, A::Error> {
        let mut tensors = BTreeMap::new();
        while let Some(name) = map.next_key::<String>()? {
            if name == METADATA {
                map.next_value::<IgnoredAny>()?;
                continue;
            }
            let in_tensor = |error| Error::custom(format!("`{name}`: {error}"));
            let tensor = map.next_value().map_err(in_tensor)?;
            if tensors.contains_key(&name) {
                return Err(Error::custom(format!("`{name}` is there twice")));
            }
            tensors.insert(name, tensor);
        }
        Ok(Header(tensors))
    }
}

impl SafeTensors {
    /// Opens a file and reads its header.
    ///
    /// # Errors
    /// The file is truncated, or its header does not describe it.
    pub fn open(path: &Path) -> Result<Self, CheckpointError> {
        let file = path.open_ranges()?;
        let (header, start) = read_header(&file)?;
        let (mut tensors, mut offsets) = (RawInfos::new(), BTreeMap::new());
        let mut extents = Vec::new();
        for (name, tensor) in header.0 {
            let damaged = |reason| CheckpointError::damaged(path, format!("`{name}`: {reason}"));
            let (begin, end) = tensor.data_offsets;
            let info = RawInfo { dtype: dtype(path, &name, &tensor.dtype)?, shape: tensor.shape };
            let expected = info.num_bytes().filter(|_| info.shape.len() <= MAX_RANK);
            if end.checked_sub(begin) != expected {
                let shape = &info.shape;
                return Err(damaged(format!(
                    "bytes {begin} to {end} do not hold {} of shape {shape:?}",
                    info.dtype
                )));
            }
            let Some(offset) = start.checked_add(begin) else {
                return Err(damaged(format!("it begins at byte {begin}")));
            };
            extents.push((begin, end));
            offsets.insert(name.clone(), offset);
            tensors.insert(name, info);
        }
        check_extents(&file, extents, file.size() - start)?;
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

/// Reads the header, and the offset of the first tensor.
fn read_header(file: &RangeFile) -> Result<(Header, u64), CheckpointError> {
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

fn dtype(path: &Path, tensor: &str, name: &str) -> Result<DType, CheckpointError> {
    let numpy = TYPES.iter().find(|(known, _)| *known == name).map(|(_, numpy)| *numpy);
    numpy.and_then(DType::from_name).ok_or_else(|| CheckpointError::Unsupported {
        path: path.to_string(),
        reason: format!(
            "`{tensor}` is of type {name}, expected floats of 16 bits or more, or integers"
        ),
    })
}

/// Checks that the tensors fill the file, without gaps and without overlaps.
fn check_extents(
    file: &RangeFile,
    mut extents: Vec<(u64, u64)>,
    size: u64,
) -> Result<(), CheckpointError> {
    extents.sort_unstable();
    let mut end = 0;
    for (begin, next) in extents {
        if begin != end {
            let reason = format!("a tensor begins at byte {begin}, where another ends at {end}");
            return Err(CheckpointError::damaged(file.path(), reason));
        }
        end = next;
    }
    if end != size {
        let reason = format!("its tensors take {end} bytes, but it holds {size}");
        return Err(CheckpointError::damaged(file.path(), reason));
    }
    Ok(())
}
