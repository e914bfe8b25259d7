//! `.zarray`, the metadata of zarr's version 2.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::codec::{Codec, Compression};
use super::metadata::{Keys, Metadata, Refusal, read_dtype, read_fill};
use crate::array::DType;

/// The name of the file.
pub const FILE_NAME: &str = ".zarray";

/// The naming of chunks that Gimlet writes.
pub const KEYS: Keys = Keys { has_prefix: false, separator: '.' };

/// The file as JSON, keys in TensorStore's order.
#[derive(Serialize, Deserialize)]
struct Json {
    chunks: Vec<usize>,
    compressor: Option<CompressorJson>,
    #[serde(default = "dot")]
    dimension_separator: char,
    dtype: Value,
    fill_value: Value,
    filters: Option<Vec<Value>>,
    order: char,
    shape: Vec<usize>,
    zarr_format: u64,
}

#[derive(Serialize, Deserialize)]
struct CompressorJson {
    id: String,
    #[serde(default)]
    level: i64,
}

fn dot() -> char {
    '.'
}

pub fn parse(text: &[u8]) -> Result<Metadata, Refusal> {
    let json: Json = serde_json::from_slice(text)
        .map_err(|error| Refusal::Damaged(format!("is not zarr v2 metadata: {error}")))?;
    let unsupported = |what: String| Err(Refusal::Unsupported(what));
    if json.zarr_format != 2 {
        return unsupported(format!("format {}, expected 2", json.zarr_format));
    }
    if json.filters.is_some_and(|filters| !filters.is_empty()) {
        return unsupported("filters".to_string());
    }
    let order = match json.order {
        'C' => None,
        'F' => Some((0..json.shape.len()).rev().collect()),
        other => return unsupported(format!("order {other}, expected C or F")),
    };
    if !['.', '/'].contains(&json.dimension_separator) {
        return unsupported(format!("dimension separator {:?}", json.dimension_separator));
    }
    let dtype = read_dtype(&json.dtype, DType::from_zarr_name)?;
    Ok(Metadata {
        codecs: json.compressor.as_ref().map(read_compressor).transpose()?.into_iter().collect(),
        fill: read_fill(&json.fill_value, dtype)?,
        dtype,
        shape: json.shape,
        chunks: json.chunks,
        order,
        keys: Keys { has_prefix: false, separator: json.dimension_separator },
        shards: None,
    })
}

fn read_compressor(json: &CompressorJson) -> Result<Codec, Refusal> {
    match &json.id[..] {
        "gzip" => Ok(Codec::Gzip),
        "zlib" => Ok(Codec::Zlib),
        "zstd" => Ok(Codec::Zstd),
        "blosc" => Ok(Codec::Blosc),
        other => Err(Refusal::Unsupported(format!(
            "compressor {other}, expected gzip, zlib, zstd, blosc or none"
        ))),
    }
}

/// The text of the file that Gimlet writes, identical to TensorStore's.
pub fn to_text(
    dtype: DType,
    shape: &[usize],
    chunks: &[usize],
    compression: Compression,
) -> Vec<u8> {
    let compressor = compression.id_and_level();
    let json = Json {
        chunks: chunks.to_vec(),
        compressor: compressor.map(|(id, level)| CompressorJson { id: id.to_string(), level }),
        dimension_separator: KEYS.separator,
        dtype: dtype.zarr_name().into(),
        fill_value: Value::Null,
        filters: None,
        order: 'C',
        shape: shape.to_vec(),
        zarr_format: 2,
    };
    serde_json::to_vec(&json).expect("plain data becomes JSON")
}

#[cfg(test)]
mod tests {
    use super::*;

    const TENSORSTORE: &str = r#"{"chunks":[4,32],"compressor":{"id":"gzip","level":1},"dimension_separator":".","dtype":"<f4","fill_value":null,"filters":null,"order":"C","shape":[4,64],"zarr_format":2}"#;

    #[test]
    fn the_text_of_tensorstore_is_written_again_byte_for_byte() {
        let text = to_text(DType::F32, &[4, 64], &[4, 32], Compression::Gzip(1));
        assert_eq!(String::from_utf8(text).unwrap(), TENSORSTORE);
        let metadata = Metadata::parse(FILE_NAME, TENSORSTORE.as_bytes()).unwrap();
        assert_eq!((metadata.codecs[..].len(), metadata.order.is_none()), (1, true));
        for (index, expected) in [(&[0, 1][..], "0.1"), (&[], "0")] {
            assert_eq!(metadata.keys.file_name(index), expected);
            assert_eq!(KEYS.file_name(index), expected);
        }
    }

    #[test]
    fn what_cannot_be_read_is_refused_by_name() {
        let refused = |from, to| Metadata::refusal(FILE_NAME, TENSORSTORE, from, to);
        assert!(refused("\"C\"", "\"A\"").contains("order A, expected C"));
        assert!(refused("gzip", "lzma").contains("compressor lzma"));
        assert!(refused("<f4", ">f4").contains("the big-endian type \">f4\""));
        assert!(refused("<f4", "<c8").contains("type \"<c8\""));
        assert!(refused("[4,32]", "[4]").contains("chunks [4]"));
        assert!(refused("[4,32]", "[0,1]").contains("chunks [0, 1]"));
        assert!(refused("[4,32]", "[4,1099511627776]").contains("more than memory can hold"));
        assert!(refused("[4,64]", "[1073741824,1073741824,4]").contains("chunks [4, 32]"));
        assert!(refused("}", "").contains("not zarr v2"));
    }
}
