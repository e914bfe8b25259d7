//! `features.json`: the features of a data set's `tf.Example`s.

use serde_json::Value as Json;

use super::super::tf_example::{Partition, TfFeature, TfKind, TfShape};
use crate::error::DataError;
use gimlet_storage::Path;

/// The features of a data set, except those that an example cannot hold (images, sounds, compressed
/// tensors). Lists of lists are ragged: their values are in `f/ragged_flat_values`, and the lengths
/// of the inner lists in `f/ragged_row_lengths_0` (TFDS `core/example_serializer.py`).
pub(super) fn read(folder: &Path) -> Result<Vec<TfFeature>, DataError> {
    let file = folder.join("features.json");
    let unfit = |reason: String| DataError::File { file: file.to_string(), reason };
    let json: Json =
        serde_json::from_slice(&file.read()?).map_err(|error| unfit(error.to_string()))?;
    let mut features = Vec::new();
    add("", &json, 0, &mut features).map_err(unfit)?;
    Ok(features)
}

/// Adds a feature, or the features below it, nested in `lists` lists.
fn add(name: &str, json: &Json, lists: usize, into: &mut Vec<TfFeature>) -> Result<(), String> {
    if let Some(inner) = json.pointer("/featuresDict/features").and_then(Json::as_object) {
        let prefix = if name.is_empty() { String::new() } else { format!("{name}/") };
        return inner
            .iter()
            .try_for_each(|(key, feature)| add(&format!("{prefix}{key}"), feature, lists, into));
    }
    if let Some(inner) = json.pointer("/sequence/feature") {
        return add(name, inner, lists + 1, into);
    }
    if let Some(translation) = json.get("translation") {
        let varies = translation.get("variableLanguagesPerExample").and_then(Json::as_bool);
        if varies == Some(true) {
            for part in ["language", "translation"] {
                push(&format!("{name}/{part}"), TfKind::Texts, lists + 1, &[], into);
            }
            return Ok(());
        }
        let languages = translation.get("languages").and_then(Json::as_array);
        for language in languages.into_iter().flatten().filter_map(Json::as_str) {
            push(&format!("{name}/{language}"), TfKind::Texts, lists, &[], into);
        }
        return Ok(());
    }
    if json.get("text").is_some() {
        push(name, TfKind::Texts, lists, &[], into);
    } else if json.get("classLabel").is_some() {
        push(name, TfKind::Ints, lists, &[], into);
    } else if let Some(tensor) = json.get("tensor") {
        add_tensor(name, tensor, lists, into)?;
    } else if ["image", "video", "audio"].iter().all(|kind| json.get(kind).is_none()) {
        let class = json.get("pythonClassName").and_then(Json::as_str).unwrap_or("no known kind");
        return Err(format!("feature '{name}' is of {class}, which is not read"));
    }
    Ok(())
}

/// Adds a feature whose values have the dimensions `shape` and are nested in `lists` lists.
fn push(
    name: &str,
    kind: TfKind,
    lists: usize,
    shape: &[Option<usize>],
    into: &mut Vec<TfFeature>,
) {
    let uniform: Option<Vec<Partition>> =
        shape.iter().map(|length| length.map(Partition::Uniform)).collect();
    match (lists, shape, uniform) {
        (0, [], _) => into.push(TfFeature::new(name, kind, TfShape::One)),
        (0, [Some(length)], _) => into.push(TfFeature::new(name, kind, TfShape::Fixed(*length))),
        (0, [None], _) | (1, [], _) => into.push(TfFeature::new(name, kind, TfShape::List)),
        (0, [count, inner @ ..], _) => {
            let inner: Option<Vec<Partition>> =
                inner.iter().map(|length| length.map(Partition::Uniform)).collect();
            // Tensors with several variable dimensions are stored with their shapes, which are not read.
            into.extend(
                inner
                    .into_iter()
                    .flat_map(|inner| TfFeature::of_rows(name, name, kind, *count, inner)),
            );
        }
        (1, _, Some(inner)) => into.extend(TfFeature::of_rows(name, name, kind, None, inner)),
        (lists, _, Some(inner)) => {
            let lengths = |depth| Partition::Lengths(format!("{name}/ragged_row_lengths_{depth}"));
            let inner = (0..lists - 1).map(lengths).chain(inner).collect();
            let stored = format!("{name}/ragged_flat_values");
            into.extend(TfFeature::of_rows(&stored, name, kind, None, inner));
        }
        (_, _, None) => {}
    }
}

fn add_tensor(
    name: &str,
    tensor: &Json,
    lists: usize,
    into: &mut Vec<TfFeature>,
) -> Result<(), String> {
    let dtype = tensor.get("dtype").and_then(Json::as_str).unwrap_or_default();
    let kind = match dtype {
        "string" | "object" => TfKind::Texts,
        "bool" => TfKind::Ints,
        "float16" | "bfloat16" | "float32" | "float64" => TfKind::Floats,
        dtype if dtype.trim_start_matches('u').starts_with("int") => TfKind::Ints,
        dtype => return Err(format!("feature '{name}' is of the unknown dtype \"{dtype}\"")),
    };
    let dimensions = tensor.pointer("/shape/dimensions").and_then(Json::as_array);
    let dimensions = dimensions.map_or(&[][..], Vec::as_slice);
    let size = |dimension: &Json| {
        let size = dimension.as_str().and_then(|text| text.parse::<i64>().ok());
        usize::try_from(size.or(dimension.as_i64())?).ok()
    };
    let shape: Vec<Option<usize>> = dimensions.iter().map(size).collect();
    // Compressed tensors are bytes without a meaning as text.
    if tensor.get("encoding").and_then(Json::as_str).is_none_or(|encoding| encoding == "none") {
        push(name, kind, lists, &shape, into);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn features(name: &str, json: &Json) -> Vec<String> {
        let mut found = Vec::new();
        add(name, json, 0, &mut found).unwrap();
        let shown = |feature: &TfFeature| {
            let TfFeature { stored, key, shape, is_hidden, .. } = feature;
            format!(
                "{stored} {}{shape:?}",
                if *is_hidden { String::new() } else { format!("as {key} ") }
            )
        };
        found.iter().map(shown).collect()
    }

    #[test]
    fn tensors_and_lists_of_lists_have_the_shapes_that_tfds_gives_them() {
        let tensor = |dimensions: &[&str]| json!({"tensor": {"shape": {"dimensions": dimensions}, "dtype": "int64", "encoding": "none"}});
        let list = |inner: Json| json!({"sequence": {"feature": inner, "length": "-1"}});
        for (json, expected) in [
            (tensor(&["2", "3"]), &["t as t Rows { count: Some(2), inner: [Uniform(3)] }"][..]),
            (tensor(&["-1", "3"]), &["t as t Rows { count: None, inner: [Uniform(3)] }"]),
            (list(tensor(&["3"])), &["t as t Rows { count: None, inner: [Uniform(3)] }"]),
            (
                list(list(json!({"text": {}}))),
                &[
                    "t/ragged_flat_values as t Rows { count: None, inner: \
                     [Lengths(\"t/ragged_row_lengths_0\")] }",
                    "t/ragged_row_lengths_0 List",
                ],
            ),
            (tensor(&["-1", "-1"]), &[]),
        ] {
            assert_eq!(features("t", &json), expected, "{json}");
        }
    }
}
