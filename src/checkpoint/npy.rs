//! Arrays in numpy's own files (`np.save`): a header that is a dict of Python, and the elements.
//!
//! ```
//! # use gimlet_checkpoint::{Array, NpyFile, npy_bytes};
//! # use gimlet_storage::Path;
//! # let file = std::env::temp_dir().join(format!("gimlet-npy-{}", std::process::id()));
//! # let path = Path::try_from(&file.as_path() as &std::path::Path).unwrap();
//! let array = Array::from_f32(&[2, 2], &[1.0, 2.0, 3.0, 4.0]);
//! path.write_atomic(&npy_bytes(array.view()))?;
//! let file = NpyFile::open(&path)?;
//! assert_eq!(file.shape, [2, 2]);
//! assert_eq!(file.rows(1..2)?.to_f32().unwrap(), [3.0, 4.0]);
//! # std::fs::remove_file(path.local().unwrap()).unwrap();
//! # Ok::<(), gimlet_checkpoint::CheckpointError>(())
//! ```
//! Source: numpy `lib/format.py`.

use std::ops::Range;

use super::array::{Array, ArrayView, DType, is_plausible, num_elements};
use super::error::CheckpointError;
use gimlet_gin::{FileId, Value, ValueKind, parse_value};
use gimlet_storage::{Path, RangeFile};

const MAGIC: &[u8] = b"\x93NUMPY";

/// The alignment of the first element.
const ALIGNMENT: usize = 64;

/// The greatest length of a header. numpy itself refuses headers of more than 10 000 bytes.
const MAX_HEADER: u64 = 10_000;

/// numpy has no bfloat16: `ml_dtypes` saves its elements as two bytes without a meaning.
const BFLOAT16: [&str; 2] = ["<V2", "|V2"];

/// Returns the bytes of the file that holds an array.
pub fn npy_bytes(array: ArrayView<'_>) -> Vec<u8> {
    let descr = match array.dtype {
        DType::Bf16 => BFLOAT16[0],
        other => other.zarr_name(),
    };
    let extents: Vec<String> = array.shape.iter().map(usize::to_string).collect();
    let shape = match &extents[..] {
        [one] => format!("({one},)"),
        several => format!("({})", several.join(", ")),
    };
    let mut header = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}");
    let before = MAGIC.len() + 4;
    let length = (before + header.len() + 1).next_multiple_of(ALIGNMENT) - before;
    header.push_str(&" ".repeat(length - header.len() - 1));
    header.push('\n');
    let length = u16::try_from(length).expect("an array has few dimensions");
    [MAGIC, &[1, 0], &length.to_le_bytes(), header.as_bytes(), array.data].concat()
}

/// A file of numpy's, of which the header has been read.
#[derive(Debug)]
pub struct NpyFile {
    file: RangeFile,
    /// The type of the elements.
    pub dtype: DType,
    /// The dimensions.
    pub shape: Vec<usize>,
    start: u64, // of the elements
}

impl NpyFile {
    /// Reads the header of a file.
    ///
    /// # Errors
    /// The file is missing, or not one array of numpy's in C order.
    pub fn open(path: &Path) -> Result<Self, CheckpointError> {
        let unfit = |reason: String| CheckpointError::NotAnArray { path: path.to_string(), reason };
        let file = path.open_ranges()?;
        let first = file.read(0..file.size().min(12))?;
        let Some([version, _, lengths @ ..]) = first.strip_prefix(MAGIC) else {
            return Err(unfit(
                "it does not begin as np.save writes, expected one array".to_string(),
            ));
        };
        let (header, length) = match (version, lengths) {
            (1, &[low, high, ..]) => (10, u64::from(u16::from_le_bytes([low, high]))),
            (2 | 3, &[a, b, c, d]) => (12, u64::from(u32::from_le_bytes([a, b, c, d]))),
            _ => return Err(unfit(format!("its format has version {version}, expected 1 to 3"))),
        };
        let start = header + length;
        if length > MAX_HEADER || start > file.size() {
            return Err(unfit(format!("its header has {length} bytes, and the file ends before")));
        }
        let text = file.read(header..start)?;
        let (dtype, shape) = parse_header(&String::from_utf8_lossy(&text)).map_err(unfit)?;
        let end = start + (num_elements(&shape) * dtype.size()) as u64;
        if end > file.size() {
            let size = file.size();
            return Err(unfit(format!("it has {size} bytes, expected {end} for shape {shape:?}")));
        }
        Ok(Self { file, dtype, shape, start })
    }

    /// Reads some of the first dimension's rows.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn rows(&self, rows: Range<usize>) -> Result<Array, CheckpointError> {
        let row = (num_elements(&self.shape[1..]) * self.dtype.size()) as u64;
        let place = |row_number: usize| self.start + row_number as u64 * row;
        let data = self.file.read(place(rows.start)..place(rows.end))?;
        let shape = [&[rows.len()], &self.shape[1..]].concat();
        Ok(Array { dtype: self.dtype, shape, data })
    }
}

/// Reads `{'descr': '<f4', 'fortran_order': False, 'shape': (100, 768), }`.
fn parse_header(text: &str) -> Result<(DType, Vec<usize>), String> {
    let found = text.trim();
    let unknown = || format!("its header is {found:?}, expected descr, fortran_order and shape");
    let Ok(Value { kind: ValueKind::Dict(entries), .. }) = parse_value(FileId(0), found) else {
        return Err(unknown());
    };
    let of = |name: &str| {
        let named = |key: &Value| matches!(&key.kind, ValueKind::Str(text) if text == name);
        entries.iter().find(|(key, _)| named(key)).map(|(_, value)| &value.kind)
    };
    let (Some(ValueKind::Str(descr)), Some(ValueKind::Bool(is_fortran)), Some(shape)) =
        (of("descr"), of("fortran_order"), of("shape"))
    else {
        return Err(unknown());
    };
    let ValueKind::Tuple(extents) = shape else { return Err(unknown()) };
    let extent = |value: &Value| match &value.kind {
        ValueKind::Int(extent) => usize::try_from(extent).ok(),
        _ => None,
    };
    let shape: Vec<usize> =
        extents.iter().map(extent).collect::<Option<_>>().ok_or_else(unknown)?;
    let dtype = match BFLOAT16.contains(&&descr[..]) {
        true => Some(DType::Bf16),
        false => DType::from_zarr_name(descr),
    };
    let Some(dtype) = dtype.filter(|dtype| is_plausible(&shape, *dtype)) else {
        return Err(format!("it holds {descr} of shape {shape:?}, expected little-endian numbers"));
    };
    match *is_fortran && shape.len() > 1 {
        true => Err(
            "its elements are in Fortran's order, expected C's: save np.ascontiguousarray(array)"
                .to_string(),
        ),
        false => Ok((dtype, shape)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(text: &str) -> Result<(DType, Vec<usize>), String> {
        parse_header(text)
    }

    #[test]
    fn headers_are_those_of_numpy() {
        let bytes = npy_bytes(Array::from_f32(&[3], &[1.0, 2.0, 3.0]).view());
        // `np.save` of numpy 1.26 wrote these bytes for np.float32([1, 2, 3]).
        let expected =
            b"\x93NUMPY\x01\x00v\x00{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }";
        assert_eq!(&bytes[..expected.len()], expected);
        assert_eq!((bytes.len(), bytes[127]), (128 + 12, b'\n'));
    }

    #[test]
    fn other_files_are_refused_by_what_they_hold() {
        let dict = |order: &str, descr: &str| {
            format!("{{'descr': '{descr}', 'fortran_order': {order}, 'shape': (2, 3), }}   \n")
        };
        assert_eq!(header(&dict("False", "<f4")), Ok((DType::F32, vec![2, 3])));
        assert_eq!(header(&dict("False", "|V2")), Ok((DType::Bf16, vec![2, 3])));
        assert!(header(&dict("True", "<f4")).unwrap_err().contains("ascontiguousarray"));
        assert!(header(&dict("False", "|O")).unwrap_err().contains("holds |O"));
        assert!(header("[1, 2]").unwrap_err().contains("expected descr"));
    }
}
