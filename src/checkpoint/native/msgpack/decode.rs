//! Decodes T5X's bytes to leaves.

use std::io::BufRead;

use rmpv::Value;

use super::{Leaf, Leaves, VERSION, ZarrLeaf};
use crate::array::{Array, DType, is_plausible};
use crate::marks::step_of_name;
use crate::msgpack::DecodeError::{self, NotACheckpoint, Orbax, Unsupported};
use crate::msgpack::{Entries, Node, RawArray, leaves, read, sizes, unknown_type};
use crate::zarr::Compression;

/// Decodes the file. Only one copy of its inline arrays is in memory.
pub(crate) fn decode(source: impl BufRead) -> Result<Leaves, DecodeError> {
    let leaves = to_leaves(optimizer(read(source)?)?)?;
    match leaves.values().any(is_placeholder) {
        true => Err(Orbax),
        false => Ok(leaves),
    }
}

/// Decodes a file of any tree, such as the one that Orbax stores beside its arrays.
pub(crate) fn decode_tree(source: impl BufRead) -> Result<Leaves, DecodeError> {
    to_leaves(Node::Map(read(source)?))
}

/// Prefix of Orbax's text in the tree for an array that is stored elsewhere.
pub(crate) const PLACEHOLDER: &str = "PLACEHOLDER://";

fn is_placeholder(leaf: &Leaf) -> bool {
    let Leaf::Other(Value::String(text)) = leaf else { return false };
    text.as_str().is_some_and(|text| text.starts_with(PLACEHOLDER))
}

/// A node of a tree whose arrays are in memory.
type Loaded = Node<Vec<u8>>;

/// Returns the train state in the root map. A standard flax checkpoint is the state itself.
fn optimizer(mut entries: Entries<Vec<u8>>) -> Result<Loaded, DecodeError> {
    let position = |name: &str| entries.iter().position(|(key, _)| key == name);
    if let Some(at) = position("version") {
        match entries[at].1.to_size() {
            Some(version) if (2..=VERSION).contains(&(version as u64)) => {}
            version => {
                let version = version.map_or("not a number".to_string(), |v| v.to_string());
                let reason = format!("its version is {version}, expected 2 or {VERSION}");
                return Err(Unsupported(reason));
            }
        }
    }
    match position("optimizer") {
        Some(at) => Ok(entries.swap_remove(at).1),
        None if position("target").is_some() => Ok(Node::Map(entries)),
        None if position("_optimizer").is_some() => Err(Orbax),
        None => Err(NotACheckpoint("expected `optimizer` or `target` at the root".to_string())),
    }
}

fn to_leaves(tree: Loaded) -> Result<Leaves, DecodeError> {
    let leaf = |(name, node): (String, Loaded)| {
        let leaf = to_leaf(node).map_err(|error| error.in_leaf(&name))?;
        Ok((name, leaf))
    };
    leaves(tree)?.into_iter().map(leaf).collect()
}

fn to_leaf(node: Loaded) -> Result<Leaf, DecodeError> {
    match node {
        Node::Map(entries) if entries.is_empty() => Ok(Leaf::Empty),
        Node::Map(_) => spec(&node.into_value()).map(Leaf::Zarr),
        Node::Array(RawArray { info, parts }) => {
            let data = parts.into_iter().reduce(|whole, part| [whole, part].concat());
            let data = data.unwrap_or_default();
            Ok(Leaf::Inline(Array { dtype: info.dtype, shape: info.shape, data }))
        }
        Node::Plain(value) => Ok(Leaf::Other(value)),
    }
}

/// Decodes the spec of a zarr array.
fn spec(value: &Value) -> Result<ZarrLeaf, DecodeError> {
    let driver = value["driver"].as_str().unwrap_or_default();
    if driver != "zarr" {
        return Err(Unsupported(format!("uses the TensorStore driver `{driver}`, expected zarr")));
    }
    let dir = folder(value)?;
    let metadata = &value["metadata"];
    let name = value["dtype"].as_str();
    let stored = metadata["dtype"].as_str();
    let dtype = name.and_then(DType::from_name).or_else(|| stored.and_then(DType::from_zarr_name));
    let dtype = dtype.filter(|dtype| *dtype != DType::U16);
    let dtype = dtype.ok_or_else(|| unknown_type(name.or(stored).unwrap_or_default()))?;
    let shape = sizes(&metadata["shape"]).filter(|shape| is_plausible(shape, dtype));
    Ok(ZarrLeaf {
        dir,
        dtype,
        shape: shape.ok_or_else(|| {
            DecodeError::damaged("has a TensorStore spec without a shape of an array")
        })?,
        chunks: sizes(&metadata["chunks"]).unwrap_or_default(),
        compression: compression(&metadata["compressor"]),
    })
}

/// Returns the folder of a zarr array relative to the checkpoint, wherever the checkpoint was
/// written. The spec names the folder in `kvstore`, a map or an address, or beside `kvstore`.
fn folder(spec: &Value) -> Result<String, DecodeError> {
    let store = &spec["kvstore"];
    let address = store.as_str().map(|address| match address.split_once("://") {
        Some(("file", path)) => path,
        // The first part is the bucket.
        Some((_, path)) => path.split_once('/').map_or("", |(_, path)| path),
        None => address,
    });
    let path = store["path"].as_str().or(address).or_else(|| spec["path"].as_str());
    let path = path.ok_or_else(|| DecodeError::damaged("has a TensorStore spec without a path"))?;
    let mut parts: Vec<&str> = path.trim_end_matches('/').split('/').collect();
    // Specs are relative, but TensorStore's own specs are not: only the path after the checkpoint's
    // name counts.
    if let Some(at) = parts.iter().rposition(|part| step_of_name(part).is_some()) {
        parts.drain(..=at);
    }
    match parts.is_empty() || parts.iter().any(|part| ["", ".", ".."].contains(part)) {
        true => Err(DecodeError::damaged(format!(
            "lies in `{path}`, expected a folder of the checkpoint"
        ))),
        false => Ok(parts.join("/")),
    }
}

/// The compression of chunks according to the spec; for reading, the chunks' own metadata decide.
fn compression(value: &Value) -> Compression {
    let level = value["level"].as_i64();
    match (value["id"].as_str(), level) {
        (Some("zstd"), level) => Compression::Zstd(level.unwrap_or(1) as i32),
        (Some(_), level) => Compression::Gzip(level.unwrap_or(1) as u32),
        (None, _) => Compression::None,
    }
}

#[cfg(test)]
mod tests {
    use super::DecodeError::Damaged;
    use super::*;
    use crate::msgpack::{CHUNKED_KEY, EXT_ARRAY, EXT_SCALAR};

    fn packed(value: &Value) -> Vec<u8> {
        let mut bytes = Vec::new();
        rmpv::encode::write_value(&mut bytes, value).unwrap();
        bytes
    }

    fn map(entries: &[(&str, Value)]) -> Value {
        Value::Map(entries.iter().map(|(key, value)| ((*key).into(), value.clone())).collect())
    }

    fn file(target: Value) -> Vec<u8> {
        let optimizer = map(&[("target", target)]);
        packed(&map(&[("version", 3.into()), ("optimizer", optimizer)]))
    }

    fn zarr_spec(kvstore: Value, beside: Option<&str>) -> Value {
        let metadata = map(&[("shape", vec![Value::from(5)].into())]);
        let mut entries = vec![
            ("driver", "zarr".into()),
            ("dtype", "bfloat16".into()),
            ("kvstore", kvstore),
            ("metadata", metadata),
        ];
        entries.extend(beside.map(|path| ("path", path.into())));
        map(&entries)
    }

    #[test]
    fn the_path_of_a_spec_may_lie_in_its_store_or_beside_it() {
        let gcs = |path: Option<&str>| {
            let mut entries = vec![("driver", "gcs".into()), ("bucket", "t5x-dummy-bucket".into())];
            entries.extend(path.map(|path| ("path", path.into())));
            map(&entries)
        };
        for spec in
            [zarr_spec(gcs(Some("target.x/")), None), zarr_spec(gcs(None), Some("target.x"))]
        {
            let leaves = decode(&file(map(&[("x", spec)]))[..]).unwrap();
            let Leaf::Zarr(leaf) = &leaves["target/x"] else { panic!("not zarr") };
            assert_eq!(
                (&leaf.dir[..], leaf.dtype, &leaf.shape[..]),
                ("target.x", DType::Bf16, &[5][..])
            );
        }
    }

    #[test]
    fn arrays_are_found_wherever_the_checkpoint_was_when_it_was_written() {
        let file = |path: &str| map(&[("driver", "file".into()), ("path", path.into())]);
        for (store, expected) in [
            (file("target.x.y/"), "target.x.y"),
            (file("/data/run/checkpoint_1000/target.x/"), "target.x"),
            ("file:///data/checkpoint_7/target.x".into(), "target.x"),
            ("gs://bucket/run/checkpoint_7/target.x/".into(), "target.x"),
            ("s3://bucket/target.x/".into(), "target.x"),
        ] {
            let leaves = decode(&self::file(map(&[("x", zarr_spec(store, None))]))[..]).unwrap();
            let Leaf::Zarr(leaf) = &leaves["target/x"] else { panic!("not zarr") };
            assert_eq!(leaf.dir, expected);
        }
    }

    #[test]
    fn a_spec_that_leaves_the_checkpoint_is_refused() {
        for path in ["../x/", "/etc/", "", "/run/checkpoint_1/", "checkpoint_1/../x"] {
            let spec = zarr_spec(map(&[("driver", "file".into()), ("path", path.into())]), None);
            assert!(decode(&file(map(&[("x", spec)]))[..]).is_err(), "{path}");
        }
    }

    #[test]
    fn scalars_of_numpy_are_arrays_without_dimensions() {
        let list = vec![Value::Array(Vec::new()), "int32".into(), Value::Binary(vec![1, 0, 0, 0])];
        let scalar = Value::Ext(EXT_SCALAR, packed(&Value::Array(list)));
        let leaves = decode(&file(map(&[("step", scalar)]))[..]).unwrap();
        assert_eq!(leaves["target/step"], Leaf::Inline(Array::scalar_i32(1)));
    }

    #[test]
    fn every_cut_is_noticed() {
        let list = vec![vec![Value::from(2)].into(), "float32".into(), Value::Binary(vec![0; 8])];
        let bytes = file(map(&[("x", Value::Ext(EXT_ARRAY, packed(&Value::Array(list))))]));
        for length in 0..bytes.len() {
            assert!(matches!(decode(&bytes[..length]), Err(Damaged(_))), "{length}");
        }
        let longer = [&bytes[..], &[0]].concat();
        assert!(matches!(decode(&longer[..]), Err(Damaged(_))));
    }

    #[test]
    fn complex_numbers_are_kept_and_no_arrays() {
        let complex = Value::Ext(2, packed(&vec![Value::from(1.0), Value::from(2.0)].into()));
        let leaves = decode(&file(map(&[("x", complex.clone())]))[..]).unwrap();
        assert_eq!(leaves["target/x"], Leaf::Other(complex));
    }

    #[test]
    fn deep_trees_and_claims_of_huge_arrays_are_errors() {
        for opening in [&[0x91][..], &[0x81, 0xa1, b'x']] {
            let deep = opening.repeat(100_000);
            assert!(matches!(decode(&deep[..]), Err(Damaged(_))));
        }
        let huge: Value = vec![Value::from(1_u64 << 60)].into();
        let overflowing: Value = vec![Value::from(1_u64 << 40), Value::from(1_u64 << 40)].into();
        for shape in [huge.clone(), overflowing] {
            let list = vec![shape, "float32".into(), Value::Binary(vec![0; 8])];
            let array = Value::Ext(EXT_ARRAY, packed(&Value::Array(list)));
            assert!(matches!(decode(&file(map(&[("x", array)]))[..]), Err(Damaged(_))));
        }
        let pieces = map(&[(CHUNKED_KEY, true.into()), ("shape", huge), ("chunks", map(&[]))]);
        assert!(matches!(decode(&file(map(&[("x", pieces)]))[..]), Err(Damaged(_))));
        // Lengths in headers, without the bytes: binary, text, list and map of 4 GiB.
        for head in [0xc6, 0xdb, 0xdd, 0xdf] {
            let mut bytes = file(map(&[("x", Value::Nil)]));
            *bytes.last_mut().unwrap() = head;
            bytes.extend([0xff; 4]);
            assert!(matches!(decode(&bytes[..]), Err(Damaged(_))), "{head:x}");
        }
    }

    #[test]
    fn pieces_of_an_array_are_joined_if_they_have_one_type() {
        let piece = |dtype: &str, length: u8| {
            let data = Value::Binary(vec![length; 4 * usize::from(length)]);
            let list = vec![vec![Value::from(length)].into(), dtype.into(), data];
            Value::Ext(EXT_ARRAY, packed(&Value::Array(list)))
        };
        let decoded = |last: Value| {
            let pieces = map(&[("0", piece("float32", 2)), ("1", last)]);
            let shape = map(&[("0", 3.into())]);
            let cut = [(CHUNKED_KEY, true.into()), ("shape", shape), ("chunks", pieces)];
            decode(&file(map(&[("x", map(&cut))]))[..])
        };
        let data = [[2; 8].as_slice(), &[1; 4]].concat();
        let joined = Array { dtype: DType::F32, shape: vec![3], data };
        assert_eq!(decoded(piece("float32", 1)).unwrap()["target/x"], Leaf::Inline(joined));
        let Err(Damaged(reason)) = decoded(piece("int32", 1)) else { panic!("it is damaged") };
        assert!(reason.contains("`optimizer/target/x` is an array in pieces"), "{reason}");
    }

    #[test]
    fn many_values_in_few_bytes_are_refused() {
        let check = |bytes: &[u8], expected: &str| match decode(bytes) {
            Err(Damaged(reason)) => assert!(reason.contains(expected), "{reason}"),
            other => panic!("{expected}: {other:?}"),
        };
        let nils = |count: usize| {
            [&[0xdd][..], &(count as u32).to_be_bytes(), &vec![0xc0; count]].concat()
        };
        check(&nils(5_000_000), "holds more than 4194304 values");
        // Values within an extension, as its shape and as its bytes.
        let shape = [&[0x93][..], &nils(5_000)].concat();
        let data = [&[0x93, 0x90, 0xa7][..], b"float32", &nils(5_000)].concat();
        for packed in [shape, data] {
            let array = Value::Ext(EXT_ARRAY, packed);
            check(
                &file(map(&[("x", array)])),
                "`optimizer/target/x` is not a packed array of shape",
            );
        }
        // Each name repeats the long one above it.
        let keys: Vec<String> = (0..3_000).map(|key| key.to_string()).collect();
        let below: Vec<(&str, Value)> = keys.iter().map(|key| (&key[..], Value::Nil)).collect();
        let long = "x".repeat(100_000);
        check(&file(map(&[(&long, map(&below))])), "names of more than 268435456 bytes");
    }

    #[test]
    fn other_files_are_told_apart() {
        let orbax = packed(&map(&[("_optimizer", Value::Nil)]));
        assert!(matches!(decode(&orbax[..]), Err(Orbax)));
        let elsewhere = file(map(&[("x", "PLACEHOLDER://target.x".into())]));
        assert!(matches!(decode(&elsewhere[..]), Err(Orbax)));
        assert!(decode_tree(&elsewhere[..]).unwrap().contains_key("optimizer/target/x"));
        let old = packed(&map(&[("version", 1.into()), ("optimizer", Value::Nil)]));
        assert!(matches!(decode(&old[..]), Err(Unsupported(_))));
        assert!(matches!(decode(&packed(&1.into())[..]), Err(NotACheckpoint(_))));
    }
}
