//! `.zarray`: what an array folder says of itself.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::checkpoint::array::{DType, num_elements};

/// The name of the file.
pub const FILE_NAME: &str = ".zarray";

/// The file as JSON, keys in TensorStore's order.
#[derive(Serialize, Deserialize)]
struct Json {
    chunks: Vec<usize>,
    compressor: Option<CompressorJson>,
    #[serde(default = "dot")]
    dimension_separator: Separator,
    dtype: Value,
    fill_value: Value,
    filters: Value,
    order: String,
    shape: Vec<usize>,
    zarr_format: u64,
}

#[derive(Serialize, Deserialize)]
struct CompressorJson {
    id: String,
    #[serde(default)]
    level: i64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Separator {
    #[serde(rename = ".")]
    Dot,
    #[serde(rename = "/")]
    Slash,
}

fn dot() -> Separator {
    Separator::Dot
}

/// How the bytes of a chunk are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compressor {
    None,
    Gzip,
    Zlib,
}

/// What is needed to find and read the chunks.
#[derive(Clone, Debug, PartialEq)]
pub struct Metadata {
    pub dtype: DType,
    pub shape: Vec<usize>,
    pub chunks: Vec<usize>,
    pub compressor: Compressor,
    pub separator: Separator,
    /// The bytes of one element that a missing chunk consists of; `None`: it must not be missing.
    pub fill: Option<Vec<u8>>,
}

/// Why metadata cannot be used.
pub enum Refusal {
    /// It is not what any writer writes.
    Damaged(String),
    /// It is valid, but nothing that is read here.
    Unsupported(String),
}

impl Metadata {
    /// Reads the file's text.
    pub fn parse(text: &[u8]) -> Result<Self, Refusal> {
        let damaged = |reason: String| Refusal::Damaged(format!("`{FILE_NAME}` {reason}"));
        let json: Json = serde_json::from_slice(text)
            .map_err(|error| damaged(format!("is not zarr v2 metadata: {error}")))?;
        if json.chunks.len() != json.shape.len() || json.chunks.contains(&0) {
            let (chunks, shape) = (&json.chunks, &json.shape);
            return Err(damaged(format!("has chunks {chunks:?} for the shape {shape:?}")));
        }
        let unsupported = |what: String| Refusal::Unsupported(format!("zarr array with {what}"));
        if json.zarr_format != 2 {
            return Err(unsupported(format!("format {}, expected 2", json.zarr_format)));
        }
        if json.order != "C" {
            return Err(unsupported(format!("order {}, expected C", json.order)));
        }
        if !json.filters.is_null() {
            return Err(unsupported("filters".to_string()));
        }
        let dtype = read_dtype(&json.dtype).map_err(unsupported)?;
        Ok(Self {
            compressor: read_compressor(json.compressor.as_ref()).map_err(unsupported)?,
            fill: read_fill(&json.fill_value, dtype).map_err(unsupported)?,
            dtype,
            shape: json.shape,
            chunks: json.chunks,
            separator: json.dimension_separator,
        })
    }

    /// The text of the file that we write, byte for byte that of TensorStore.
    pub fn to_text(&self) -> Vec<u8> {
        assert_eq!(self.compressor, Compressor::Gzip, "only gzip is written");
        let json = Json {
            chunks: self.chunks.clone(),
            compressor: Some(CompressorJson { id: "gzip".to_string(), level: 1 }),
            dimension_separator: self.separator,
            dtype: self.dtype.zarr_name().into(),
            fill_value: Value::Null,
            filters: Value::Null,
            order: "C".to_string(),
            shape: self.shape.clone(),
            zarr_format: 2,
        };
        serde_json::to_vec(&json).expect("plain data becomes JSON")
    }

    /// The file that holds the chunk of these indices.
    pub fn chunk_name(&self, index: &[usize]) -> String {
        let separator = if self.separator == Separator::Dot { "." } else { "/" };
        match index {
            [] => "0".to_string(),
            _ => index.iter().map(usize::to_string).collect::<Vec<_>>().join(separator),
        }
    }

    /// The bytes of one chunk, decompressed.
    pub fn chunk_bytes(&self) -> usize {
        num_elements(&self.chunks) * self.dtype.size()
    }
}

fn read_dtype(value: &Value) -> Result<DType, String> {
    let name = value.as_str().unwrap_or_default();
    if let Some(dtype) = DType::from_zarr_name(name) {
        return Ok(dtype);
    }
    Err(match name {
        "<u2" => {
            "type uint16, which stood for bfloat16 before 2021: update it with T5X".to_string()
        }
        _ => format!("type {value}, expected one of bool, integers, floats or bfloat16"),
    })
}

fn read_compressor(json: Option<&CompressorJson>) -> Result<Compressor, String> {
    match json.map(|compressor| compressor.id.as_str()) {
        None => Ok(Compressor::None),
        Some("gzip") => Ok(Compressor::Gzip),
        Some("zlib") => Ok(Compressor::Zlib),
        Some(other) => Err(format!("compressor {other}, expected gzip, zlib or none")),
    }
}

/// TensorStore writes `null`: chunks are then always there. Others fill with zeros or numbers.
fn read_fill(value: &Value, dtype: DType) -> Result<Option<Vec<u8>>, String> {
    if value.is_null() {
        return Ok(None);
    }
    let number = match value {
        Value::String(text) if text == "NaN" => f64::NAN,
        Value::Bool(truth) => f64::from(u8::from(*truth)),
        _ => value.as_f64().ok_or_else(|| format!("fill value {value}"))?,
    };
    Ok(Some(match dtype {
        DType::Bool => vec![u8::from(number != 0.0)],
        DType::U32 => (number as u32).to_le_bytes().to_vec(),
        DType::I32 => (number as i32).to_le_bytes().to_vec(),
        DType::I64 => (number as i64).to_le_bytes().to_vec(),
        DType::Bf16 | DType::F16 | DType::F32 | DType::F64 => {
            crate::checkpoint::array::cast_floats(&number.to_le_bytes(), DType::F64, dtype)
        }
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TENSORSTORE: &str = r#"{"chunks":[4,32],"compressor":{"id":"gzip","level":1},"dimension_separator":".","dtype":"<f4","fill_value":null,"filters":null,"order":"C","shape":[4,64],"zarr_format":2}"#;

    #[test]
    fn the_text_of_tensorstore_is_written_again_byte_for_byte() {
        let Ok(metadata) = Metadata::parse(TENSORSTORE.as_bytes()) else { panic!("refused") };
        assert_eq!(String::from_utf8(metadata.to_text()).unwrap(), TENSORSTORE);
        assert_eq!(metadata.chunk_name(&[0, 1]), "0.1");
        assert_eq!(metadata.chunk_name(&[]), "0");
    }

    #[test]
    fn what_cannot_be_read_is_refused_by_name() {
        let refused = |from: &str, to: &str| match Metadata::parse(
            TENSORSTORE.replace(from, to).as_bytes(),
        ) {
            Err(Refusal::Damaged(reason) | Refusal::Unsupported(reason)) => reason,
            Ok(_) => panic!("{to} was read"),
        };
        assert!(refused("\"C\"", "\"F\"").contains("order F, expected C"));
        assert!(refused("gzip", "blosc").contains("compressor blosc"));
        assert!(refused("<f4", "<u2").contains("uint16"));
        assert!(refused("[4,32]", "[4]").contains("chunks [4]"));
        assert!(refused("[4,32]", "[0,1]").contains("chunks [0, 1]"));
        assert!(refused("}", "").contains("not zarr v2"));
    }
}
