//! The contract of a converter: the fields of its rows, and the model features made from them.

use std::collections::BTreeMap;

use super::batch::BatchFeature;
use super::row::Row;
use crate::error::DataError;
use crate::example::Example;
use crate::value::{Key, Value};

/// Feature to its length in tokens.
pub type Lengths = BTreeMap<String, usize>;

/// Converts a task's features into the model's inputs.
pub(crate) trait Convert {
    /// The fields of a row and their lengths, or an error about missing lengths.
    fn fields(&self, lengths: &Lengths) -> Result<Vec<Field>, DataError>;

    /// The values of the fields, in their order, for one example.
    fn prepare(&self, example: &mut Example, fields: &[Field]) -> Result<Vec<Vec<i32>>, DataError> {
        fields.iter().map(|field| take_ints(example, &field.name)).collect()
    }

    /// The model features of rows with these fields.
    fn model_features(&self, fields: &[Field], is_packed: bool) -> Vec<Field>;

    /// Appends a row to the model features.
    fn push(&self, row: &Row, bos_id: i32, out: &mut [BatchFeature]);

    /// Whether rows may hold several examples.
    fn packs(&self) -> bool {
        true
    }

    /// Whether a field holds several features of a task, or all of a list, one after the other.
    fn joins(&self, _fields: &[Field]) -> bool {
        false
    }

    /// Whether each token of the first field has a value in all others, perhaps 0.
    fn is_aligned(&self) -> bool {
        false
    }

    /// Whether the model gets the features unchanged.
    fn passes_through(&self) -> bool {
        false
    }
}

/// A feature with its length.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Field {
    pub name: Key,
    pub length: usize,
}

impl Field {
    pub(super) fn new(name: &str, length: usize) -> Self {
        Self { name: name.into(), length }
    }
}

/// Takes the token ids of a feature out of an example.
pub(super) fn take_ints(example: &mut Example, key: &str) -> Result<Vec<i32>, DataError> {
    match example.take(key) {
        Some(Value::Ints(tokens)) => Ok(tokens),
        Some(other) => {
            let found = other.type_name();
            let message = format!("the model needs token ids in '{key}', found {found}");
            Err(DataError::Config(message))
        }
        None => {
            let found = example.names();
            let message = format!("the model needs the feature '{key}', found {found}");
            Err(DataError::Config(message))
        }
    }
}

/// A field for each of these task features; the lengths must name no others.
pub(super) fn fields_of(
    class: &str,
    names: &[&str],
    lengths: &Lengths,
) -> Result<Vec<Field>, DataError> {
    if let Some(extra) = lengths.keys().find(|key| !names.contains(&&key[..])) {
        let takes: Vec<String> = names.iter().map(|name| format!("'{name}'")).collect();
        return Err(DataError::Config(format!(
            "`task_feature_lengths` has '{extra}', which {class} does not take; it takes {}",
            takes.join(" and ")
        )));
    }
    names.iter().map(|name| Ok(Field::new(name, feature_length(name, lengths)?))).collect()
}

/// The length that is bound for a task feature.
pub fn feature_length(name: &str, lengths: &Lengths) -> Result<usize, DataError> {
    match lengths.get(name) {
        Some(&length) if length > 0 => Ok(length),
        found => Err(DataError::Config(format!(
            "`task_feature_lengths` needs a positive length for '{name}', found {}",
            found.map_or("none".to_string(), usize::to_string)
        ))),
    }
}
