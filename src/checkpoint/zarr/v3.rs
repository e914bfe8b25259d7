//! `zarr.json`, the metadata of zarr's version 3.

use serde::Deserialize;
use serde_json::Value;

use super::codec::Codec;
use super::metadata::{Keys, Metadata, Refusal, Shards, read_dtype, read_fill};
use crate::array::DType;

/// The name of the file.
pub const FILE_NAME: &str = "zarr.json";

/// Maximum number of codecs of one array; writers use at most four. Each codec is a nested reader,
/// which needs memory and stack.
const MAX_CODECS: usize = 8;

#[derive(Deserialize)]
struct Json {
    chunk_grid: Named<Grid>,
    chunk_key_encoding: Named<KeyEncoding>,
    codecs: Vec<CodecJson>,
    data_type: Value,
    fill_value: Value,
    node_type: String,
    shape: Vec<usize>,
    #[serde(default)]
    storage_transformers: Vec<Value>,
    zarr_format: u64,
}

#[derive(Deserialize)]
struct Named<T> {
    name: String,
    configuration: Option<T>,
}

#[derive(Deserialize)]
struct Grid {
    chunk_shape: Vec<usize>,
}

#[derive(Deserialize)]
struct KeyEncoding {
    separator: Option<char>,
}

type CodecJson = Named<CodecConfiguration>;

/// The union of all codecs' parameters; each codec uses some of them.
#[derive(Default, Deserialize)]
#[serde(default)]
struct CodecConfiguration {
    endian: Option<String>,
    order: Option<Vec<usize>>,
    chunk_shape: Option<Vec<usize>>,
    codecs: Vec<CodecJson>,
    index_codecs: Vec<CodecJson>,
    index_location: Option<String>,
}

fn unsupported<T>(what: impl Into<String>) -> Result<T, Refusal> {
    Err(Refusal::Unsupported(what.into()))
}

pub fn parse(text: &[u8]) -> Result<Metadata, Refusal> {
    let json: Json = serde_json::from_slice(text)
        .map_err(|error| Refusal::Damaged(format!("is not zarr v3 metadata: {error}")))?;
    if (json.zarr_format, &json.node_type[..]) != (3, "array") {
        let (found, version) = (json.node_type, json.zarr_format);
        return unsupported(format!("{found} of format {version}, expected an array of format 3"));
    }
    if !json.storage_transformers.is_empty() {
        return unsupported("storage transformers");
    }
    let grid = match (&json.chunk_grid.name[..], json.chunk_grid.configuration) {
        ("regular", Some(grid)) => grid.chunk_shape,
        (other, _) => return unsupported(format!("the chunk grid `{other}`, expected `regular`")),
    };
    let dtype = read_dtype(&json.data_type, DType::from_name)?;
    let mut metadata = Metadata {
        dtype,
        fill: read_fill(&json.fill_value, dtype)?,
        chunks: grid,
        codecs: Vec::new(),
        order: None,
        keys: read_keys(json.chunk_key_encoding)?,
        shards: None,
        shape: json.shape,
    };
    match &json.codecs[..] {
        [CodecJson { name, configuration: Some(sharding) }] if name == "sharding_indexed" => {
            read_shards(&mut metadata, sharding)?;
        }
        codecs => read_codecs(&mut metadata, codecs)?,
    }
    Ok(metadata)
}

fn read_keys(encoding: Named<KeyEncoding>) -> Result<Keys, Refusal> {
    let separator = encoding.configuration.and_then(|configuration| configuration.separator);
    let keys = match &encoding.name[..] {
        "default" => Keys { has_prefix: true, separator: separator.unwrap_or('/') },
        "v2" => Keys { has_prefix: false, separator: separator.unwrap_or('.') },
        other => return unsupported(format!("the chunk keys `{other}`")),
    };
    match keys.separator {
        '.' | '/' => Ok(keys),
        other => unsupported(format!("the chunk key separator {other:?}")),
    }
}

fn read_shards(metadata: &mut Metadata, sharding: &CodecConfiguration) -> Result<(), Refusal> {
    let shard = std::mem::take(&mut metadata.chunks);
    let chunks = sharding.chunk_shape.clone().unwrap_or_default();
    let fits = |(shard, chunk): (&usize, &usize)| *chunk > 0 && shard.is_multiple_of(*chunk);
    if chunks.len() != shard.len() || !shard.iter().zip(&chunks).all(fits) {
        return Err(Refusal::Damaged(format!("has chunks {chunks:?} in shards {shard:?}")));
    }
    let index_codecs: Vec<&str> =
        sharding.index_codecs.iter().take(MAX_CODECS).map(|codec| &codec.name[..]).collect();
    metadata.shards = Some(Shards {
        counts: shard.iter().zip(&chunks).map(|(shard, chunk)| shard / chunk).collect(),
        index_at_end: match sharding.index_location.as_deref() {
            None | Some("end") => true,
            Some("start") => false,
            Some(other) => return unsupported(format!("the index of its shards at `{other}`")),
        },
        has_checksum: match index_codecs[..] {
            ["bytes", "crc32c"] => true,
            ["bytes"] => false,
            _ => return unsupported(format!("the codecs {index_codecs:?} for its index")),
        },
    });
    metadata.chunks = chunks;
    read_codecs(metadata, &sharding.codecs)
}

fn read_codecs(metadata: &mut Metadata, codecs: &[CodecJson]) -> Result<(), Refusal> {
    if codecs.len() > MAX_CODECS {
        return unsupported(format!("{} codecs, expected {MAX_CODECS} at most", codecs.len()));
    }
    for codec in codecs {
        let configuration = codec.configuration.as_ref();
        match &codec.name[..] {
            "bytes" => {
                let endian = configuration.and_then(|bytes| bytes.endian.as_deref());
                if metadata.dtype.size() > 1 && endian != Some("little") {
                    return unsupported("big-endian bytes, expected little-endian");
                }
            }
            "transpose" if metadata.order.is_some() => {
                return unsupported("two codecs transpose, expected one at most");
            }
            "transpose" => {
                let order = configuration.and_then(|transpose| transpose.order.clone());
                metadata.order = Some(permutation(order, metadata.shape.len())?);
            }
            "gzip" => metadata.codecs.push(Codec::Gzip),
            "zstd" => metadata.codecs.push(Codec::Zstd),
            "blosc" => metadata.codecs.push(Codec::Blosc),
            "crc32c" => metadata.codecs.push(Codec::Crc32c),
            other => {
                return unsupported(format!(
                    "the codec {other}, expected gzip, zstd, blosc or crc32c"
                ));
            }
        }
    }
    Ok(())
}

fn permutation(order: Option<Vec<usize>>, rank: usize) -> Result<Vec<usize>, Refusal> {
    let order = order.unwrap_or_default();
    let mut sorted = order.clone();
    sorted.sort_unstable();
    match sorted.into_iter().eq(0..rank) {
        true => Ok(order),
        false => Err(Refusal::Damaged(format!(
            "its transpose codec has the order {order:?}, expected each number below {rank} once"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Metadata that TensorStore writes for Orbax.
    const TENSORSTORE: &str = r#"{"chunk_grid":{"configuration":{"chunk_shape":[6,4]},"name":"regular"},"chunk_key_encoding":{"name":"default"},"codecs":[{"configuration":{"chunk_shape":[3,2],"codecs":[{"configuration":{"endian":"little"},"name":"bytes"},{"configuration":{"checksum":false,"level":3},"name":"zstd"}],"index_codecs":[{"configuration":{"endian":"little"},"name":"bytes"},{"name":"crc32c"}]},"name":"sharding_indexed"}],"data_type":"float32","fill_value":0.0,"node_type":"array","shape":[12,4],"zarr_format":3}"#;

    #[test]
    fn shards_of_chunks_are_understood() {
        let metadata = Metadata::parse(FILE_NAME, TENSORSTORE.as_bytes()).unwrap();
        assert_eq!((&metadata.chunks[..], &metadata.codecs[..]), (&[3, 2][..], &[Codec::Zstd][..]));
        let shards = metadata.shards.as_ref().unwrap();
        assert_eq!((&shards.counts[..], shards.has_checksum), (&[2, 2][..], true));
        assert_eq!(metadata.keys.file_name(&[1, 0]), "c/1/0");
        assert_eq!(metadata.keys.file_name(&[]), "c");
    }

    #[test]
    fn what_cannot_be_read_is_refused_by_name() {
        let refused = |from, to| Metadata::refusal(FILE_NAME, TENSORSTORE, from, to);
        assert!(refused("\"array\"", "\"group\"").contains("group of format 3"));
        assert!(refused("\"regular\"", "\"rectangular\"").contains("chunk grid `rectangular`"));
        assert!(refused("\"zstd\"", "\"lzma\"").contains("codec lzma"));
        assert!(refused("little", "big").contains("big-endian"));
        assert!(refused("[3,2]", "[4,2]").contains("chunks [4, 2] in shards [6, 4]"));
        assert!(refused("float32", "string").contains("type \"string\""));
        assert!(refused("\"default\"", "\"other\"").contains("chunk keys `other`"));
        let transpose = r#"{"name":"transpose","configuration":{"order":[1,0]}},"#;
        let zstd = r#"{"configuration":{"checksum""#;
        let twice = [transpose, transpose, zstd].concat();
        assert!(refused(zstd, &twice).contains("two codecs transpose"));
    }

    #[test]
    fn a_chain_of_codecs_without_end_is_refused() {
        let zstd = r#"{"configuration":{"checksum":false,"level":3},"name":"zstd"}"#;
        let chain = |count| {
            Metadata::parse(
                FILE_NAME,
                TENSORSTORE.replace(zstd, &vec![zstd; count].join(",")).as_bytes(),
            )
        };
        assert_eq!(chain(7).unwrap().codecs.len(), 7);
        for count in [8, 100_000] {
            let Err(Refusal::Unsupported(reason)) = chain(count) else { panic!("{count}") };
            let expected = format!("{} codecs, expected 8 at most", count + 1);
            assert!(reason.contains(&expected), "{reason}");
        }
    }

    #[test]
    fn claims_that_no_machine_can_hold_are_refused() {
        for (from, to) in [
            // The bytes of a shard's index, and the elements of the array, overflow.
            ("[6,4]", "[4611686018427387903,4]"),
            ("[6,4]", "[0,4]"),
            ("[12,4]", "[0,2305843009213693951]"),
            ("[12,4]", "[0,1099511627776,1099511627776]"),
        ] {
            let text = TENSORSTORE.replace(from, to);
            let found = Metadata::parse(FILE_NAME, text.as_bytes());
            assert!(matches!(found, Err(Refusal::Damaged(_))), "{to}: {found:?}");
        }
    }
}
