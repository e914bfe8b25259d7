//! Arrays on the host, as checkpoints hold them: little-endian bytes in C order.

use std::collections::BTreeMap;
use std::ops::Range;

use half::{bf16, f16};

/// The type of an array's elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DType {
    /// One byte, 0 or 1.
    Bool,
    /// Unsigned 8-bit integer.
    U8,
    /// Signed 8-bit integer.
    I8,
    /// Unsigned 16-bit integer.
    U16,
    /// Signed 16-bit integer.
    I16,
    /// Unsigned 32-bit integer; JAX's random keys.
    U32,
    /// Signed 32-bit integer; T5X's `step`.
    I32,
    /// Unsigned 64-bit integer.
    U64,
    /// Signed 64-bit integer.
    I64,
    /// The upper half of a float32.
    Bf16,
    /// IEEE half precision.
    F16,
    /// IEEE single precision.
    F32,
    /// IEEE double precision.
    F64,
}

/// Every type with its name in numpy and in zarr.
const NAMES: [(DType, &str, &str); 13] = [
    (DType::Bool, "bool", "|b1"),
    (DType::U8, "uint8", "|u1"),
    (DType::I8, "int8", "|i1"),
    (DType::U16, "uint16", "<u2"),
    (DType::I16, "int16", "<i2"),
    (DType::U32, "uint32", "<u4"),
    (DType::I32, "int32", "<i4"),
    (DType::U64, "uint64", "<u8"),
    (DType::I64, "int64", "<i8"),
    // Not in zarr's own list: TensorStore's extension.
    (DType::Bf16, "bfloat16", "bfloat16"),
    (DType::F16, "float16", "<f2"),
    (DType::F32, "float32", "<f4"),
    (DType::F64, "float64", "<f8"),
];

impl DType {
    /// Bytes per element.
    pub fn size(self) -> usize {
        match self {
            DType::Bool | DType::U8 | DType::I8 => 1,
            DType::U16 | DType::I16 | DType::Bf16 | DType::F16 => 2,
            DType::U32 | DType::I32 | DType::F32 => 4,
            DType::U64 | DType::I64 | DType::F64 => 8,
        }
    }

    /// numpy's name: `float32`.
    pub fn name(self) -> &'static str {
        self.names().1
    }

    /// Finds the type by its numpy name.
    pub fn from_name(name: &str) -> Option<Self> {
        NAMES.iter().find(|names| names.1 == name).map(|names| names.0)
    }

    /// zarr's name: `<f4`.
    pub(super) fn zarr_name(self) -> &'static str {
        self.names().2
    }

    pub(super) fn from_zarr_name(name: &str) -> Option<Self> {
        NAMES.iter().find(|names| names.2 == name).map(|names| names.0)
    }

    /// Whether values can be rounded to another float type, as a change of the save dtype does.
    pub fn is_float(self) -> bool {
        matches!(self, DType::Bf16 | DType::F16 | DType::F32 | DType::F64)
    }

    fn names(self) -> &'static (DType, &'static str, &'static str) {
        NAMES.iter().find(|names| names.0 == self).expect("every type is listed")
    }
}

impl std::fmt::Display for DType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// Shapes of arrays by name: `target/encoder/encoder_norm/scale`.
pub type Shapes = BTreeMap<String, Vec<usize>>;

/// An array of a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArrayInfo<'a> {
    /// `target/encoder/encoder_norm/scale`, `state/step`, `state/param_states/.../v_row`.
    pub name: &'a str,
    /// The type it is stored in.
    pub dtype: DType,
    /// Its dimensions.
    pub shape: &'a [usize],
}

/// An array that owns its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Array {
    /// The type of the elements.
    pub dtype: DType,
    /// The dimensions; empty for a scalar.
    pub shape: Vec<usize>,
    /// The elements in C order, little endian.
    pub data: Vec<u8>,
}

impl Array {
    /// An int32 scalar, such as T5X's `state/step`.
    pub fn scalar_i32(value: i32) -> Self {
        Self { dtype: DType::I32, shape: Vec::new(), data: value.to_le_bytes().to_vec() }
    }

    /// A float32 array.
    pub fn from_f32(shape: &[usize], values: &[f32]) -> Self {
        assert_eq!(num_elements(shape), values.len(), "shape {shape:?} holds other values");
        let data = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        Self { dtype: DType::F32, shape: shape.to_vec(), data }
    }

    /// The elements of a float array as float32; `None` for other types.
    pub fn to_f32(&self) -> Option<Vec<f32>> {
        self.dtype.is_float().then(|| {
            let cast = self.view().cast_bytes(DType::F32);
            cast.chunks_exact(4)
                .map(|bytes| f32::from_le_bytes(bytes.try_into().expect("four bytes")))
                .collect()
        })
    }

    /// The only element of an integer array of one element.
    pub fn to_int(&self) -> Option<i64> {
        let bytes = &self.data[..];
        match self.dtype {
            DType::U8 => Some(u8::from_le_bytes(bytes.try_into().ok()?).into()),
            DType::I8 => Some(i8::from_le_bytes(bytes.try_into().ok()?).into()),
            DType::U16 => Some(u16::from_le_bytes(bytes.try_into().ok()?).into()),
            DType::I16 => Some(i16::from_le_bytes(bytes.try_into().ok()?).into()),
            DType::U64 => u64::from_le_bytes(bytes.try_into().ok()?).try_into().ok(),
            DType::U32 => Some(u32::from_le_bytes(bytes.try_into().ok()?).into()),
            DType::I32 => Some(i32::from_le_bytes(bytes.try_into().ok()?).into()),
            DType::I64 => Some(i64::from_le_bytes(bytes.try_into().ok()?)),
            _ => None,
        }
    }

    /// The array with its floats rounded to another float type; other types stay as they are.
    pub fn cast(self, dtype: DType) -> Self {
        if !self.dtype.is_float() || !dtype.is_float() || self.dtype == dtype {
            return self;
        }
        let data = self.view().cast_bytes(dtype);
        Self { dtype, data, shape: self.shape }
    }

    /// The part within these ranges, one for each dimension; panics when a range lies outside the
    /// array.
    pub fn part(&self, part: &[Range<usize>]) -> Self {
        assert_eq!(part.len(), self.shape.len(), "one range for each dimension");
        let mut data = self.data.clone();
        let mut shape = self.shape.clone();
        // One dimension after the other keeps or drops its rows, with everything below it.
        for (axis, range) in part.iter().enumerate() {
            let row = num_elements(&shape[axis + 1..]) * self.dtype.size();
            if *range != (0..shape[axis]) && row > 0 {
                let kept = data.chunks_exact(row * shape[axis]);
                data = kept
                    .flat_map(|rows| &rows[range.start * row..range.end * row])
                    .copied()
                    .collect();
            }
            shape[axis] = range.len();
        }
        Self { dtype: self.dtype, shape, data }
    }

    /// The array, borrowed.
    pub fn view(&self) -> ArrayView<'_> {
        ArrayView { dtype: self.dtype, shape: &self.shape, data: &self.data }
    }
}

/// An array that borrows its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArrayView<'a> {
    /// The type of the elements.
    pub dtype: DType,
    /// The dimensions; empty for a scalar.
    pub shape: &'a [usize],
    /// The elements in C order, little endian.
    pub data: &'a [u8],
}

impl ArrayView<'_> {
    /// A copy that owns its bytes.
    pub fn to_array(&self) -> Array {
        Array { dtype: self.dtype, shape: self.shape.to_vec(), data: self.data.to_vec() }
    }

    /// The bytes with floats rounded to another float type; panics for types that are not floats.
    pub fn cast_bytes(&self, dtype: DType) -> Vec<u8> {
        cast_floats(self.data, self.dtype, dtype)
    }
}

/// Number of bytes of an array; `None` when no machine could hold them.
pub(super) fn num_bytes(shape: &[usize], dtype: DType) -> Option<usize> {
    let start = Some(dtype.size());
    let bytes = shape.iter().fold(start, |bytes, &size| bytes?.checked_mul(size));
    bytes.filter(|&bytes| isize::try_from(bytes).is_ok())
}

/// Whether an array may have this shape: the largest arrays of models are far smaller. Empty
/// dimensions count as one, so that callers may divide by the others.
pub(super) fn is_plausible(shape: &[usize], dtype: DType) -> bool {
    const MAX_EXTENT: usize = 1 << 40;
    const MAX_BYTES: usize = 1 << 46;
    let bytes = shape.iter().try_fold(dtype.size(), |bytes, n| bytes.checked_mul((*n).max(1)));
    shape.iter().all(|n| *n <= MAX_EXTENT) && bytes.is_some_and(|bytes| bytes <= MAX_BYTES)
}

/// The number of elements of a shape.
pub(super) fn num_elements(shape: &[usize]) -> usize {
    shape.iter().product()
}

/// Rounds floats to another float type, to nearest, ties to even, as JAX does.
pub(super) fn cast_floats(bytes: &[u8], from: DType, to: DType) -> Vec<u8> {
    assert!(from.is_float() && to.is_float(), "only floats are cast");
    if from == to {
        return bytes.to_vec();
    }
    let mut out = Vec::with_capacity(bytes.len() / from.size() * to.size());
    for element in bytes.chunks_exact(from.size()) {
        match from {
            DType::F64 => push(&mut out, f64::from_le_bytes(fixed(element)), to),
            DType::F32 => push_f32(&mut out, f32::from_le_bytes(fixed(element)), to),
            DType::F16 => push_f32(&mut out, f16::from_le_bytes(fixed(element)).to_f32(), to),
            _ => push_f32(&mut out, bf16::from_le_bytes(fixed(element)).to_f32(), to),
        }
    }
    out
}

fn push(out: &mut Vec<u8>, value: f64, to: DType) {
    match to {
        DType::F64 => out.extend(value.to_le_bytes()),
        DType::F32 => out.extend((value as f32).to_le_bytes()),
        DType::F16 => out.extend(f16::from_f64(value).to_le_bytes()),
        _ => out.extend(bf16::from_f64(value).to_le_bytes()),
    }
}

fn push_f32(out: &mut Vec<u8>, value: f32, to: DType) {
    match to {
        DType::F64 => out.extend(f64::from(value).to_le_bytes()),
        DType::F32 => out.extend(value.to_le_bytes()),
        DType::F16 => out.extend(f16::from_f32(value).to_le_bytes()),
        _ => out.extend(bf16::from_f32(value).to_le_bytes()),
    }
}

fn fixed<const N: usize>(bytes: &[u8]) -> [u8; N] {
    bytes.try_into().expect("`chunks_exact` yields whole elements")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bfloat16_rounds_to_nearest_even() {
        // 1 + 2^-8 lies halfway between 1 and 1 + 2^-7, as does 1 + 3 * 2^-8 between its
        // neighbours.
        let array = Array::from_f32(&[3], &[1.0 + 1.0 / 256.0, 1.0 + 3.0 / 256.0, f32::INFINITY]);
        let rounded = array.cast(DType::Bf16);
        assert_eq!(rounded.to_f32().unwrap(), [1.0, 1.0 + 4.0 / 256.0, f32::INFINITY]);
    }

    #[test]
    fn a_part_is_what_its_ranges_cover() {
        let numbers: Vec<f32> = (0..24u8).map(f32::from).collect();
        let array = Array::from_f32(&[2, 3, 4], &numbers);
        let part = array.part(&[1..2, 0..3, 1..3]);
        assert_eq!(part.shape, [1, 3, 2]);
        assert_eq!(part.to_f32().unwrap(), [13.0, 14.0, 17.0, 18.0, 21.0, 22.0]);
        assert_eq!(array.part(&[0..2, 0..3, 0..4]), array);
        assert_eq!(array.part(&[0..2, 1..1, 0..4]).shape, [2, 0, 4]);
        assert_eq!(Array::scalar_i32(7).part(&[]), Array::scalar_i32(7));
    }

    #[test]
    fn integers_are_never_cast() {
        let step = Array::scalar_i32(7);
        assert_eq!(step.clone().cast(DType::Bf16), step);
        assert_eq!(step.to_int(), Some(7));
        assert_eq!(step.to_f32(), None);
    }
}
