//! `info.{split}.json`: the features of cached examples and the number of shards.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::data::example::{Example, Value};
use crate::data::source::{TfFeature, TfKind, TfShape};
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
            let shape = match described.shape[..] {
                [] => TfShape::One,
                [_] => TfShape::List,
                [count, Some(length)] => TfShape::Rows { count, length },
                _ => {
                    let shape = &described.shape;
                    return Err(format!(
                        "feature '{name}' has the shape {shape:?}, expected at most two dimensions, the \
                         second of a fixed size"
                    ));
                }
            };
            // The name that SeqIO used before `_pretokenized`.
            let key = match name.strip_suffix("_plaintext") {
                Some(feature) => format!("{feature}_pretokenized"),
                None => name.clone(),
            };
            Ok(TfFeature { key: key.into(), ..TfFeature::new(name, kind, shape) })
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
    /// The length of rows, where the list is one of rows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    row: Option<usize>,
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
            let known = Known::of(value, output_features.get(&**key)).ok_or_else(|| {
                format!(
                    "'{key}' is {} of different lengths, and a cache holds rows of one; make it behind \
                     `CacheDatasetPlaceholder`",
                    value.type_name()
                )
            })?;
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
            let shape = match (known.is_list, known.row) {
                (false, _) => Vec::new(),
                (true, None) => vec![None],
                (true, row) => vec![None, row],
            };
            (name.clone(), Described { dtype: known.dtype.clone(), shape })
        });
        described.collect()
    }
}

impl Known {
    /// `None` for rows of different lengths.
    fn of(value: &Value, feature: Option<&Feature>) -> Option<Self> {
        let is_long = feature.is_some_and(|feature| feature.dtype == FeatureDtype::Int64);
        let (dtype, is_list, is_open) = match value {
            Value::Ints(ids) if is_long => ("int64", true, ids.is_empty()),
            Value::Ints(ids) => ("int32", true, ids.is_empty()),
            Value::Longs(_) => ("int64", true, false),
            Value::IntRows(rows) => ("int32", true, rows.is_empty()),
            Value::Floats(numbers) => ("float32", true, numbers.is_empty()),
            Value::FloatRows(rows) => ("float32", true, rows.is_empty()),
            Value::Texts(texts) => ("string", true, texts.is_empty()),
            Value::Int(_) => ("int64", false, false),
            Value::Float(_) => ("float32", false, false),
            Value::Text(_) => ("string", false, false),
        };
        let row = match value {
            Value::IntRows(rows) => common(rows.iter().map(Vec::len))?,
            Value::FloatRows(rows) => common(rows.iter().map(Vec::len))?,
            _ => None,
        };
        Some(Self { dtype: dtype.to_string(), is_list, row, is_open })
    }

    fn fits(&self, before: &Self) -> bool {
        let is_like = self.dtype == before.dtype && self.row == before.row;
        self.is_list == before.is_list && (self.is_open || is_like)
    }

    fn as_str(&self) -> String {
        match (self.is_list, self.row) {
            (false, _) => format!("one {}", self.dtype),
            (true, None) => format!("a list of {}", self.dtype),
            (true, Some(length)) => format!("rows of {length} {}", self.dtype),
        }
    }
}

/// The length that all have: of none there is none, of different ones no answer.
fn common(mut lengths: impl Iterator<Item = usize>) -> Option<Option<usize>> {
    let first = lengths.next();
    lengths.all(|length| Some(length) == first).then_some(first)
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
    fn rows_have_one_length() {
        let rows = |rows: &[&[i32]]| Value::IntRows(rows.iter().map(|row| row.to_vec()).collect());
        let (two, none) = (rows(&[&[1, 2], &[3, 4]]), rows(&[]));
        let found = note(&[&[("a", none.clone())], &[("a", two.clone())], &[("a", none)]]);
        assert_eq!(found.unwrap(), ["a int32 [None, Some(2)]"]);
        let uneven = note(&[&[("a", rows(&[&[1, 2], &[3]]))]]).unwrap_err();
        assert!(uneven.contains("'a' is a list of lists of ints of different lengths"), "{uneven}");
        let other = note(&[&[("a", two)], &[("a", rows(&[&[1]]))]]).unwrap_err();
        assert_eq!(other, "'a' is rows of 1 int32, and rows of 2 int32 in those before");
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
