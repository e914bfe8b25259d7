//! Reads the leaves of a checkpoint and the names of their arrays.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use crate::array::Array;
use crate::error::CheckpointError;
use crate::msgpack::DecodeError;
use crate::native::{Leaf, PLACEHOLDER, decode_tree};
use gimlet_storage::Path;

/// The tree as JSON.
pub const TREE: &str = "_METADATA";

/// The texts by the names of their leaves.
pub const STRINGS: &str = "_strings.json";

/// The tree as msgpack, written before Orbax used JSON.
pub const OLD_TREE: &str = "checkpoint";

#[derive(Deserialize)]
struct Json {
    tree_metadata: BTreeMap<String, LeafJson>,
}

#[derive(Deserialize)]
struct LeafJson {
    key_metadata: Vec<KeyJson>,
    #[serde(default)]
    value_metadata: ValueJson,
}

#[derive(Deserialize)]
struct KeyJson {
    key: Value,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ValueJson {
    value_type: String,
    skip_deserialize: bool,
}

/// A leaf of the tree.
#[derive(Debug)]
pub enum Named {
    /// An array by the name of its folder.
    Array(String),
    /// An array in the tree itself.
    Inline(Array),
    /// A dictionary without keys.
    Empty,
    /// None, or a text.
    Other(rmpv::Value),
}

/// Returns the leaves by name, such as `target/encoder/norm/scale`; of leaves without data only the
/// kinds that T5X has too.
pub fn leaves(item: &Path) -> Result<BTreeMap<String, Named>, CheckpointError> {
    match item.join(TREE).read() {
        Ok(text) => from_json(item, &text),
        Err(error) if error.is_not_found() => from_msgpack(item),
        Err(error) => Err(error.into()),
    }
}

fn from_json(item: &Path, text: &[u8]) -> Result<BTreeMap<String, Named>, CheckpointError> {
    let json: Json = serde_json::from_slice(text).map_err(|error| {
        CheckpointError::damaged(item, format!("`{TREE}` is not Orbax's metadata: {error}"))
    })?;
    let is_text = |leaf: &LeafJson| leaf.value_metadata.value_type == "string";
    let strings = match json.tree_metadata.values().any(is_text) {
        true => strings(item)?,
        false => BTreeMap::new(),
    };
    let named = |leaf: LeafJson| {
        let keys: Vec<String> = leaf.key_metadata.iter().map(|key| text_of(&key.key)).collect();
        let (name, array) = (keys.join("/"), keys.join("."));
        let value = &leaf.value_metadata;
        let named = match &value.value_type[..] {
            "string" => Named::Other(strings.get(&array)?.as_str().into()),
            "None" => Named::Other(rmpv::Value::Nil),
            "Dict" if value.skip_deserialize => Named::Empty,
            _ if value.skip_deserialize => return None,
            _ => Named::Array(array),
        };
        Some((name, named))
    };
    let mut leaves = BTreeMap::new();
    for (name, leaf) in json.tree_metadata.into_values().filter_map(named) {
        if leaves.contains_key(&name) {
            let reason = format!("it has two leaves `{name}`, since one of its keys holds a `/`");
            return Err(CheckpointError::Unsupported { path: item.to_string(), reason });
        }
        leaves.insert(name, leaf);
    }
    Ok(leaves)
}

/// Reads the texts by the names of their leaves. They are not part of a model, so their file may be
/// missing.
fn strings(item: &Path) -> Result<BTreeMap<String, String>, CheckpointError> {
    let text = match item.join(STRINGS).read() {
        Err(error) if error.is_not_found() => return Ok(BTreeMap::new()),
        text => text?,
    };
    serde_json::from_slice(&text).map_err(|error| {
        CheckpointError::damaged(item, format!("`{STRINGS}` holds no texts: {error}"))
    })
}

fn text_of(key: &Value) -> String {
    key.as_str().map_or_else(|| key.to_string(), str::to_string)
}

fn from_msgpack(item: &Path) -> Result<BTreeMap<String, Named>, CheckpointError> {
    let file = match item.join(OLD_TREE).open() {
        Err(error) if error.is_not_found() => {
            return Err(CheckpointError::damaged(item, format!("its file `{TREE}` is missing")));
        }
        file => file?,
    };
    let leaves = decode_tree(std::io::BufReader::with_capacity(1 << 18, file));
    let leaves = leaves.map_err(|error| match error {
        DecodeError::NotACheckpoint(reason) => CheckpointError::damaged(item, reason),
        error => error.at(item),
    })?;
    let named = |(name, leaf): (String, Leaf)| match leaf {
        Leaf::Inline(array) => Some((name, Named::Inline(array))),
        Leaf::Zarr(leaf) => Some((name, Named::Array(leaf.dir))),
        Leaf::Other(value) => {
            let folder = value.as_str()?.strip_prefix(PLACEHOLDER)?.to_string();
            Some((name, Named::Array(folder)))
        }
        Leaf::Empty => None,
    };
    Ok(leaves.into_iter().filter_map(named).collect())
}
