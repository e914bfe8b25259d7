//! `features.json`: what the `tf.Example`s of a data set hold.

use serde_json::Value as Json;

use super::super::tf_example::{TfFeature, TfKind, TfShape};
use crate::data::error::DataError;
use crate::storage::Path;

/// The features of a data set; those that an example cannot hold (images, tensors of rank 2) are left
/// out. Of a list of lists `f` there are the values in one list, `f/flat_values`, and how many are in
/// each inner list, `f/row_lengths`.
pub(super) fn read(folder: &Path) -> Result<Vec<TfFeature>, DataError> {
    let file = folder.join("features.json");
    let unfit = |reason: String| DataError::File { file: file.to_string(), reason };
    let json: Json =
        serde_json::from_slice(&file.read()?).map_err(|error| unfit(error.to_string()))?;
    let mut features = Vec::new();
    add("", &json, false, &mut features).map_err(unfit)?;
    Ok(features)
}

/// Adds a feature, or those below it. In a sequence each holds a list.
fn add(name: &str, json: &Json, in_list: bool, into: &mut Vec<TfFeature>) -> Result<(), String> {
    if let Some(inner) = json.pointer("/featuresDict/features").and_then(Json::as_object) {
        let prefix = if name.is_empty() { String::new() } else { format!("{name}/") };
        return inner
            .iter()
            .try_for_each(|(key, feature)| add(&format!("{prefix}{key}"), feature, in_list, into));
    }
    if let Some(inner) = json.pointer("/sequence/feature") {
        return if in_list { add_ragged(name, inner, into) } else { add(name, inner, true, into) };
    }
    if let Some(translation) = json.get("translation") {
        let varies = translation.get("variableLanguagesPerExample").and_then(Json::as_bool);
        if varies == Some(true) {
            for part in ["language", "translation"] {
                push(format!("{name}/{part}"), TfKind::Texts, true, into);
            }
            return Ok(());
        }
        let languages = translation.get("languages").and_then(Json::as_array);
        for language in languages.into_iter().flatten().filter_map(Json::as_str) {
            push(format!("{name}/{language}"), TfKind::Texts, in_list, into);
        }
        return Ok(());
    }
    if json.get("text").is_some() {
        push(name.to_string(), TfKind::Texts, in_list, into);
    } else if json.get("classLabel").is_some() {
        push(name.to_string(), TfKind::Ints, in_list, into);
    } else if let Some(tensor) = json.get("tensor") {
        add_tensor(name, tensor, in_list, into)?;
    } else if ["image", "video", "audio"].iter().all(|kind| json.get(kind).is_none()) {
        let class = json.get("pythonClassName").and_then(Json::as_str).unwrap_or("no known kind");
        return Err(format!("feature '{name}' is of {class}, which is not read"));
    }
    Ok(())
}

/// Adds the features below a list of lists, which is stored with its lengths beside it.
fn add_ragged(name: &str, inner: &Json, into: &mut Vec<TfFeature>) -> Result<(), String> {
    let mut features = Vec::new();
    add(name, inner, true, &mut features)?;
    // Those of three lists and more are left out: they have more lengths.
    let is_flat = |feature: &TfFeature| feature.stored == *feature.key;
    for TfFeature { stored, kind, .. } in features.into_iter().filter(is_flat) {
        for (part, key, kind) in [
            ("ragged_flat_values", "flat_values", kind),
            ("ragged_row_lengths_0", "row_lengths", TfKind::Ints),
        ] {
            let key = format!("{stored}/{key}").as_str().into();
            let stored = format!("{stored}/{part}");
            into.push(TfFeature { key, ..TfFeature::new(&stored, kind, TfShape::List) });
        }
    }
    Ok(())
}

fn push(name: String, kind: TfKind, in_list: bool, into: &mut Vec<TfFeature>) {
    into.push(TfFeature::new(&name, kind, if in_list { TfShape::List } else { TfShape::One }));
}

fn add_tensor(
    name: &str,
    tensor: &Json,
    in_list: bool,
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
    let encoded = tensor.get("encoding").and_then(Json::as_str).is_some_and(|e| e != "none");
    let size = |dimension: &Json| {
        dimension.as_str().and_then(|text| text.parse::<i64>().ok()).or(dimension.as_i64())
    };
    let shape = match dimensions {
        // Compressed tensors are bytes that mean nothing as text.
        _ if encoded => return Ok(()),
        [] if in_list => TfShape::List,
        [] => TfShape::One,
        [one] if !in_list => match size(one).and_then(|size| usize::try_from(size).ok()) {
            Some(length) => TfShape::Fixed(length),
            None => TfShape::List,
        },
        _ => return Ok(()),
    };
    into.push(TfFeature::new(name, kind, shape));
    Ok(())
}
