//! `info.{split}.json`: the features of cached examples and the number of shards.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::data::example::{Example, Value};
use crate::data::source::{TfFeature, TfKind};
use crate::data::task::{Feature, FeatureDtype};

/// The version of SeqIO whose layout this is.
const SEQIO_VERSION: &str = "0.0.20";

/// The whole file; keys sorted, as SeqIO writes them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Info {
    pub features: BTreeMap<String, Described>,
    pub num_shards: usize,
    /// Absent in old caches.
    #[serde(default)]
    pub seqio_version: Option<String>,
}

/// One feature: `{"dtype": "int32", "shape": [null]}`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Described {
    pub dtype: String,
    pub shape: Vec<Option<usize>>,
}

impl Info {
    pub(super) fn new(features: BTreeMap<String, Described>, num_shards: usize) -> Self {
        Self { features, num_shards, seqio_version: Some(SEQIO_VERSION.to_string()) }
    }

    /// The features to read, or which of them cannot be.
    pub(super) fn tf_features(&self) -> Result<Vec<TfFeature>, String> {
        let read = |(name, described): (&String, &Described)| {
            let kind = match &described.dtype[..] {
                dtype if dtype.contains("int") || dtype == "bool" => TfKind::Ints,
                "float16" | "bfloat16" | "float32" | "float64" => TfKind::Floats,
                "string" => TfKind::Texts,
                dtype => return Err(format!("feature '{name}' has the unknown dtype \"{dtype}\"")),
            };
            let rank = described.shape.len();
            if rank > 1 {
                return Err(format!("feature '{name}' has {rank} dimensions, at most 1 is read"));
            }
            // The name that SeqIO used before `_pretokenized`.
            let key = match name.strip_suffix("_plaintext") {
                Some(feature) => format!("{feature}_pretokenized"),
                None => name.clone(),
            };
            Ok(TfFeature { stored: name.clone(), key: key.into(), kind, is_list: rank == 1 })
        };
        self.features.iter().map(read).collect()
    }
}

/// The features of the examples of a split, learned as they come: all must have the same.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct FeatureTable {
    features: BTreeMap<String, Known>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Known {
    dtype: String,
    is_list: bool,
    /// Whether all were lists without values, which any list can follow.
    is_open: bool,
}

impl FeatureTable {
    /// Takes note of an example's features, or says how they differ from those before.
    pub(super) fn note(
        &mut self,
        example: &Example,
        output_features: &BTreeMap<String, Feature>,
    ) -> Result<(), String> {
        let is_first = self.features.is_empty();
        for (key, value) in example.iter() {
            if value.rank() > 1 {
                return Err(format!(
                    "'{key}' is {}, and a cache holds lists of one dimension; make it behind \
                     `CacheDatasetPlaceholder`",
                    value.type_name()
                ));
            }
            let known = Known::of(value, output_features.get(&**key));
            match self.features.get_mut(&**key) {
                Some(before) if known.fits(before) => {}
                Some(before) if before.is_open && known.is_list => *before = known,
                Some(before) => {
                    let (found, expected) = (known.as_str(), before.as_str());
                    return Err(format!("'{key}' is {found}, and {expected} in those before"));
                }
                None if is_first => {
                    self.features.insert(key.to_string(), known);
                }
                None => return Err(format!("'{key}' is not in those before")),
            }
        }
        match self.features.keys().find(|name| example.get(name).is_none()) {
            Some(lacking) => Err(format!("it lacks '{lacking}', which those before have")),
            None => Ok(()),
        }
    }

    /// The features as the file describes them.
    pub(super) fn described(&self) -> BTreeMap<String, Described> {
        let described = self.features.iter().map(|(name, known)| {
            let shape = if known.is_list { vec![None] } else { Vec::new() };
            (name.clone(), Described { dtype: known.dtype.clone(), shape })
        });
        described.collect()
    }
}

impl Known {
    fn of(value: &Value, feature: Option<&Feature>) -> Self {
        let is_long = feature.is_some_and(|feature| feature.dtype == FeatureDtype::Int64);
        let (dtype, is_list, is_open) = match value {
            Value::Ints(ids) if is_long => ("int64", true, ids.is_empty()),
            Value::Ints(ids) => ("int32", true, ids.is_empty()),
            Value::IntRows(rows) => ("int32", true, rows.is_empty()),
            Value::Floats(numbers) => ("float32", true, numbers.is_empty()),
            Value::FloatRows(rows) => ("float32", true, rows.is_empty()),
            Value::Texts(texts) => ("string", true, texts.is_empty()),
            Value::Int(_) => ("int64", false, false),
            Value::Float(_) => ("float32", false, false),
            Value::Text(_) => ("string", false, false),
        };
        Self { dtype: dtype.to_string(), is_list, is_open }
    }

    fn fits(&self, before: &Self) -> bool {
        self.is_list == before.is_list && (self.is_open || self.dtype == before.dtype)
    }

    fn as_str(&self) -> String {
        let article = if self.is_list { "a list of" } else { "one" };
        format!("{article} {}", self.dtype)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(examples: &[&[(&str, Value)]]) -> Result<Vec<String>, String> {
        let mut table = FeatureTable::default();
        for features in examples {
            let example = features.iter().map(|(key, value)| ((*key).into(), value.clone()));
            table.note(&example.collect(), &BTreeMap::new())?;
        }
        let line = |(name, described): (&String, &Described)| {
            format!("{name} {} {:?}", described.dtype, described.shape)
        };
        Ok(table.described().iter().map(line).collect())
    }

    #[test]
    fn an_empty_list_waits_for_its_type() {
        let (empty, texts) = (Value::Ints(vec![]), Value::Texts(vec!["x".to_string()]));
        let found = note(&[&[("a", empty.clone())], &[("a", texts)], &[("a", empty)]]);
        assert_eq!(found.unwrap(), ["a string [None]"]);
    }

    #[test]
    fn examples_that_differ_are_refused() {
        let (int, float) = (Value::Int(1), Value::Float(1.5));
        let both = [("a", int.clone()), ("b", int.clone())];
        for (first, second, expected) in [
            (&both[..1], &[("a", float)][..], "'a' is one float32, and one int64 in those before"),
            (&both[..1], &both[..], "'b' is not in those before"),
            (&both[..], &both[..1], "it lacks 'b', which those before have"),
        ] {
            assert_eq!(note(&[first, second]).unwrap_err(), expected);
        }
    }
}
