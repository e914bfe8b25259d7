//! The metadata of an array, in zarr's version 2 (`.zarray`) or 3 (`zarr.json`).

use serde_json::Value;

use super::codec::Codec;
use crate::array::{DType, cast_floats, is_plausible, num_bytes};

/// Maximum size in bytes of a chunk that is larger than its whole array.
const LONE_CHUNK_BYTES: usize = 256 << 20;

/// Bytes per chunk in the index of a shard: offset and length.
const INDEX_ENTRY_BYTES: usize = 16;

/// The metadata needed to find and read the chunks.
#[derive(Clone, Debug, PartialEq)]
pub struct Metadata {
    pub dtype: DType,
    pub shape: Vec<usize>,
    /// The shape of a chunk.
    pub chunks: Vec<usize>,
    /// The steps from the bytes of a chunk to those of its file.
    pub codecs: Vec<Codec>,
    /// The array's dimension for each stored dimension; `None`: stored in C order.
    pub order: Option<Vec<usize>>,
    pub keys: Keys,
    /// The bytes of an element of a missing chunk; `None`: chunks must not be missing.
    pub fill: Option<Vec<u8>>,
    /// The layout of files that several chunks share.
    pub shards: Option<Shards>,
}

/// The naming of chunk files: `1.2`, `1/2` or `c/1/2`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keys {
    pub has_prefix: bool,
    pub separator: char,
}

impl Keys {
    /// The name of the file with these indices.
    pub fn file_name(self, index: &[usize]) -> String {
        let prefix = self.has_prefix.then(|| "c".to_string());
        let numbers = index.iter().map(usize::to_string);
        let parts: Vec<String> = prefix.into_iter().chain(numbers).collect();
        match parts.is_empty() {
            true => "0".to_string(),
            false => parts.join(&self.separator.to_string()),
        }
    }
}

/// The layout of files of several chunks with an index: offset and length of each chunk.
#[derive(Clone, Debug, PartialEq)]
pub struct Shards {
    /// Number of chunks in a file in each dimension.
    pub counts: Vec<usize>,
    pub index_at_end: bool,
    /// Whether a CRC-32C follows the index.
    pub has_checksum: bool,
}

/// Reasons why metadata cannot be used.
#[derive(Debug)]
pub enum Refusal {
    /// The metadata are not valid.
    Damaged(String),
    /// The metadata are valid, but not supported here.
    Unsupported(String),
}

impl Metadata {
    /// Checks that an array of these sizes is possible.
    pub(super) fn check(&self, file: &str) -> Result<(), Refusal> {
        let (chunks, shape) = (&self.chunks, &self.shape);
        if chunks.len() != shape.len() || chunks.contains(&0) {
            let reason = format!("`{file}` has chunks {chunks:?} for the shape {shape:?}");
            return Err(Refusal::Damaged(reason));
        }
        let whole = num_bytes(shape, self.dtype);
        let chunk = num_bytes(chunks, self.dtype);
        match (whole, chunk) {
            (Some(whole), Some(chunk))
                if is_plausible(shape, self.dtype) && chunk <= whole.max(LONE_CHUNK_BYTES) =>
            {
                self.check_shards(file)
            }
            _ => {
                let dtype = self.dtype;
                let reason = format!("`{file}` claims {dtype} {shape:?} in chunks {chunks:?}");
                Err(Refusal::Damaged(format!("{reason}: more than memory can hold")))
            }
        }
    }

    /// Checks that the index of a shard has a valid size.
    fn check_shards(&self, file: &str) -> Result<(), Refusal> {
        let Some(Shards { counts, .. }) = &self.shards else { return Ok(()) };
        let bytes = counts.iter().try_fold(INDEX_ENTRY_BYTES, |bytes, n| bytes.checked_mul(*n));
        match bytes.and_then(|bytes| isize::try_from(bytes).ok()) {
            Some(1..) => Ok(()),
            _ => Err(Refusal::Damaged(format!("`{file}` has {counts:?} chunks in a shard"))),
        }
    }

    /// Number of bytes of one unpacked chunk.
    pub fn chunk_bytes(&self) -> usize {
        num_bytes(&self.chunks, self.dtype).expect("checked when parsed")
    }

    /// Whether a chunk can only be unpacked as a whole; other chunks are streamed through memory.
    pub fn unpacks_whole_chunks(&self) -> bool {
        let is_whole = |codec: &Codec| matches!(codec, Codec::Blosc | Codec::Crc32c);
        self.order.is_some() || self.codecs.iter().any(is_whole)
    }

    /// End of the array's elements in a chunk in C order: chunks at the edges are padded.
    pub fn elements_end(&self, index: &[usize]) -> usize {
        let sizes = index.iter().zip(&self.chunks).zip(&self.shape);
        let last = sizes
            .fold(0, |last, ((i, chunk), size)| last * chunk + (size - i * chunk).min(*chunk) - 1);
        last + 1
    }
}

/// Returns the type with this name in either version; an error describes the name.
pub fn read_dtype(value: &Value, from_name: fn(&str) -> Option<DType>) -> Result<DType, Refusal> {
    let name = value.as_str().unwrap_or_default();
    from_name(name).ok_or_else(|| {
        Refusal::Unsupported(match name.starts_with('>') {
            true => format!("the big-endian type {value}, expected little-endian"),
            false => {
                format!("type {value}, expected bool, an integer or a float of 16 bits or more")
            }
        })
    })
}

/// Returns the fill value. TensorStore writes `null`: no chunk is missing then. Other writers fill
/// with zeros or numbers.
pub fn read_fill(value: &Value, dtype: DType) -> Result<Option<Vec<u8>>, Refusal> {
    let refused = || Refusal::Unsupported(format!("fill value {value}"));
    if value.is_null() {
        return Ok(None);
    }
    if let Some(bits) = value.as_str().and_then(|text| text.strip_prefix("0x")) {
        let bits = u64::from_str_radix(bits, 16).map_err(|_| refused())?;
        return Ok(Some(bits.to_le_bytes()[..dtype.size()].to_vec()));
    }
    if dtype.is_float() {
        let number = read_float(value).ok_or_else(refused)?;
        return Ok(Some(cast_floats(&number.to_le_bytes(), DType::F64, dtype)));
    }
    let number = match value {
        Value::Bool(truth) => i128::from(*truth),
        Value::Number(number) => match (number.as_i64(), number.as_u64(), number.as_f64()) {
            (Some(number), _, _) => number.into(),
            (_, Some(number), _) => number.into(),
            (_, _, Some(number)) if number.fract() == 0.0 => number as i128,
            _ => return Err(refused()),
        },
        _ => return Err(refused()),
    };
    Ok(Some(number.to_le_bytes()[..dtype.size()].to_vec()))
}

fn read_float(value: &Value) -> Option<f64> {
    match value.as_str() {
        Some("NaN") => Some(f64::NAN),
        Some("Infinity") => Some(f64::INFINITY),
        Some("-Infinity") => Some(f64::NEG_INFINITY),
        _ => value.as_f64(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fill_values_are_numbers_names_or_bits() {
        let check = |json: &str, dtype: DType, expected: &[u8]| {
            let value = serde_json::from_str(json).unwrap();
            assert_eq!(read_fill(&value, dtype).unwrap().unwrap(), expected, "{json}");
        };
        check("2.5", DType::F32, &2.5_f32.to_le_bytes());
        check("\"-Infinity\"", DType::F64, &f64::NEG_INFINITY.to_le_bytes());
        check("\"0x7fc0\"", DType::Bf16, &[0xc0, 0x7f]);
        check("true", DType::Bool, &[1]);
        check("-3", DType::I16, &(-3_i16).to_le_bytes());
        check("18446744073709551615", DType::U64, &[0xff; 8]);
        check("0.0", DType::I32, &[0; 4]);
        for (json, dtype) in [("\"x\"", DType::F32), ("0.5", DType::I32), ("[]", DType::Bool)] {
            let value = serde_json::from_str(json).unwrap();
            assert!(matches!(read_fill(&value, dtype), Err(Refusal::Unsupported(_))), "{json}");
        }
    }
}
