//! Writes Orbax's format: each array in a separate folder below `state`, as Orbax does without OCDBT, and
//! the metadata. Source: Orbax's `metadata/tree.py` and `serialization/type_handlers.py`.

use serde_json::{Map, Value, json};

use super::metadata::{STRINGS, TREE};
use crate::error::CheckpointError;
use crate::marks::{ORBAX_BEGINNING, ORBAX_END, ORBAX_ITEM, is_ended_by_file};
use crate::native::{Leaf, Leaves, SmallFile, WrittenFormat};
use gimlet_storage::Path;

/// Name of the handler that reads the item.
const HANDLER: &str =
    "orbax.checkpoint._src.handlers.pytree_checkpoint_handler.PyTreeCheckpointHandler";

/// Number of the kind of dictionary keys.
const DICT_KEY: u8 = 2;

/// Orbax's format.
pub(crate) static ORBAX: WrittenFormat = WrittenFormat {
    name: "orbax",
    folder: Some(ORBAX_ITEM),
    reserved: &[TREE, STRINGS, "checkpoint", "gimlet", "manifest.ocdbt"],
    refused_types: &[],
    is_inline: |_, _| false,
    has_numbers: false,
    tree,
};

fn tree(leaves: &Leaves, finished: &Path) -> Result<Vec<SmallFile>, CheckpointError> {
    let mut tree = Map::new();
    let mut strings = Map::new();
    for (name, leaf) in leaves {
        let kind = match leaf {
            // Arrays of jax would need a description of their devices.
            Leaf::Zarr(_) | Leaf::Inline(_) => "np.ndarray",
            Leaf::Empty => "Dict",
            Leaf::Other(rmpv::Value::Nil) => "None",
            Leaf::Other(value) => {
                let text = value.as_str().ok_or_else(|| no_place(finished, name, value))?;
                strings.insert(name.replace('/', "."), json!(text));
                "string"
            }
        };
        let has_no_data = matches!(kind, "Dict" | "None");
        let keys = name.split('/').map(|key| json!({"key": key, "key_type": DICT_KEY}));
        let leaf = json!({
            "key_metadata": keys.collect::<Vec<_>>(),
            "value_metadata": {"value_type": kind, "skip_deserialize": has_no_data},
        });
        tree.insert(tuple(name), leaf);
    }
    let tree = json!({
        "tree_metadata": tree,
        "use_ocdbt": false,
        "use_zarr3": false,
        "store_array_data_equal_to_fill_value": true,
        "custom_metadata": null,
    });
    // The times of writing are omitted, so that the same checkpoint gives the same bytes.
    let checkpoint = json!({
        "item_handlers": {ORBAX_ITEM: HANDLER},
        "metrics": {},
        "performance_metrics": {},
        "init_timestamp_nsecs": null,
        "commit_timestamp_nsecs": null,
        "custom_metadata": {},
    });
    let mut files = vec![(ORBAX_BEGINNING.to_string(), checkpoint.to_string().into_bytes())];
    if !strings.is_empty() {
        let strings = Value::from(strings).to_string().into_bytes();
        files.push((ORBAX.in_checkpoint(STRINGS), strings));
    }
    files.push((ORBAX.in_checkpoint(TREE), tree.to_string().into_bytes()));
    if is_ended_by_file(finished) {
        let text = format!("Checkpoint commit was successful to {finished}");
        for file in [ORBAX.in_checkpoint(ORBAX_END), ORBAX_END.to_string()] {
            files.push((file, text.clone().into_bytes()));
        }
    }
    Ok(files)
}

/// Formats the keys of a name as Python prints a tuple.
fn tuple(name: &str) -> String {
    let keys: Vec<String> = name.split('/').map(quoted).collect();
    match &keys[..] {
        [key] => format!("({key},)"),
        keys => format!("({})", keys.join(", ")),
    }
}

/// Formats a text as Python prints it.
fn quoted(text: &str) -> String {
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    let mut out = String::from(quote);
    for char in text.chars() {
        match char {
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            _ if char == quote || char == '\\' => out.extend(['\\', char]),
            _ => out.push(char),
        }
    }
    out.push(quote);
    out
}

fn no_place(finished: &Path, name: &str, value: &rmpv::Value) -> CheckpointError {
    let reason =
        format!("`{name}` is {value}, for which Orbax has no place; expected an array or a text");
    CheckpointError::Export { path: finished.to_string(), reason }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_become_tuples_as_python_prints_them() {
        assert_eq!(tuple("target/a b/c"), "('target', 'a b', 'c')");
        assert_eq!(tuple("step"), "('step',)");
        assert_eq!(tuple("it's"), "(\"it's\",)");
        assert_eq!(tuple("it's \"a\" \\"), "('it\\'s \"a\" \\\\',)");
    }
}
