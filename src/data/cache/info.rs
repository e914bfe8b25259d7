//! `info.{split}.json`: the features of cached examples and the number of shards.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::example::Example;
use crate::feature::{Feature, FeatureDtype};
use crate::source::{Partition, TfFeature, TfKind, TfShape, ragged_lengths};
use crate::value::{Leaf, Value};

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

    /// The features to read, or the name of a feature that cannot be read.
    pub(super) fn tf_features(&self) -> Result<Vec<TfFeature>, String> {
        let read = |(name, described): (&String, &Described)| {
            let kind = match &described.dtype[..] {
                dtype if dtype.contains("int") || dtype == "bool" => TfKind::Ints,
                "float16" | "bfloat16" | "float32" | "float64" => TfKind::Floats,
                "string" => TfKind::Texts,
                dtype => return Err(format!("feature '{name}' has the unknown dtype \"{dtype}\"")),
            };
            // The name that SeqIO used before `_pretokenized`.
            let key = match name.strip_suffix("_plaintext") {
                Some(feature) => format!("{feature}_pretokenized"),
                None => name.clone(),
            };
            let of_shape = |shape| {
                vec![TfFeature { key: key.as_str().into(), ..TfFeature::new(name, kind, shape) }]
            };
            Ok(match &described.shape[..] {
                [] => of_shape(TfShape::One),
                [_] => of_shape(TfShape::List),
                [count, inner @ ..] => {
                    let inner = partitions(name, inner);
                    let is_ragged = inner.iter().any(|one| matches!(one, Partition::Lengths(_)));
                    TfFeature::of_rows(name, &key, kind, count.filter(|_| !is_ragged), inner)
                }
            })
        };
        let features: Vec<Vec<TfFeature>> =
            self.features.iter().map(read).collect::<Result<_, String>>()?;
        Ok(features.concat())
    }
}

/// Partitions of the dimensions of a feature. Lengths are counted over the dimensions that vary, as
/// SeqIO counts them.
fn partitions(name: &str, dimensions: &[Option<usize>]) -> Vec<Partition> {
    let mut num_ragged = 0;
    let partition = |dimension: &Option<usize>| match dimension {
        Some(length) => Partition::Uniform(*length),
        None => {
            num_ragged += 1;
            Partition::Lengths(ragged_lengths(name, num_ragged - 1))
        }
    };
    dimensions.iter().map(partition).collect()
}

/// The features of the examples of a split, collected from the examples: all must have the same
/// features.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct FeatureTable {
    features: BTreeMap<String, Known>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Known {
    dtype: String,
    is_list: bool,
    /// The lengths of rows, by dimension after the first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    inner: Vec<RowLength>,
    /// Whether all values were empty lists; any list can follow.
    is_open: bool,
}

/// The length of the rows of a dimension.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
enum RowLength {
    /// No rows so far.
    Open,
    All(usize),
    Varies,
}

impl FeatureTable {
    /// Records an example's features, or returns how they differ from the earlier ones.
    pub(super) fn note(
        &mut self,
        example: &Example,
        output_features: &BTreeMap<String, Feature>,
    ) -> Result<(), String> {
        let is_first = self.features.is_empty();
        for (key, value) in example.iter() {
            let known = Known::of(value, output_features.get(&**key));
            match self.features.get_mut(&**key) {
                Some(before) => {
                    if !before.take_in(&known) {
                        let (found, expected) = (known.as_str(), before.as_str());
                        return Err(format!(
                            "'{key}' is {found}, and {expected} in earlier examples"
                        ));
                    }
                }
                None if is_first => {
                    self.features.insert(key.to_string(), known);
                }
                None => return Err(format!("'{key}' is not in earlier examples")),
            }
        }
        match self.features.keys().find(|name| example.get(name).is_none()) {
            Some(lacking) => Err(format!("it lacks '{lacking}', which earlier examples have")),
            None => Ok(()),
        }
    }

    /// Takes in the features of other examples, or returns how they differ.
    pub(super) fn join(&mut self, other: &Self) -> Result<(), String> {
        if self.features.is_empty() || other.features.is_empty() {
            self.features.extend(other.features.clone());
            return Ok(());
        }
        if let Some(name) = other.features.keys().find(|name| !self.features.contains_key(*name)) {
            return Err(format!("some examples have '{name}', and others lack it"));
        }
        for (name, known) in &mut self.features {
            let Some(theirs) = other.features.get(name) else {
                return Err(format!("some examples have '{name}', and others lack it"));
            };
            if !known.take_in(theirs) {
                let (found, expected) = (theirs.as_str(), known.as_str());
                return Err(format!("'{name}' is {found}, and {expected} in other examples"));
            }
        }
        Ok(())
    }

    /// The features as the file describes them.
    pub(super) fn described(&self) -> BTreeMap<String, Described> {
        let described = self.features.iter().map(|(name, known)| {
            let shape = if known.is_list { known.shape() } else { Vec::new() };
            (name.clone(), Described { dtype: known.dtype.clone(), shape })
        });
        described.collect()
    }
}

impl Known {
    fn of(value: &Value, feature: Option<&Feature>) -> Self {
        let is_long = feature.is_some_and(|feature| feature.dtype == FeatureDtype::Int64)
            || value.len().is_none()
            || value.is_long();
        let dtype = match value.leaf() {
            Leaf::Ints if is_long => "int64",
            Leaf::Ints => "int32",
            Leaf::Floats => "float32",
            Leaf::Texts => "string",
        };
        let inner = value.row_lengths().iter().map(|lengths| RowLength::of(lengths)).collect();
        let (is_list, is_open) = (value.len().is_some(), value.is_empty());
        Self { dtype: dtype.to_string(), is_list, inner, is_open }
    }

    /// Widens the description to include another value; false if that is not possible.
    fn take_in(&mut self, other: &Self) -> bool {
        if self.is_list != other.is_list {
            return false;
        }
        match (self.is_open, other.is_open) {
            (_, true) if self.inner.len() != other.inner.len() => true,
            (true, false) => {
                let inner = std::mem::take(&mut self.inner);
                *self = other.clone();
                self.merge(&inner);
                true
            }
            _ if self.dtype == other.dtype || other.is_open => {
                let fits = self.inner.len() == other.inner.len();
                self.merge(&other.inner);
                fits
            }
            _ => false,
        }
    }

    fn merge(&mut self, inner: &[RowLength]) {
        for (length, other) in self.inner.iter_mut().zip(inner) {
            *length = length.and(*other);
        }
    }

    /// Describes a list as SeqIO does: if any dimension varies, the lengths of all partitioned
    /// dimensions are stored.
    fn shape(&self) -> Vec<Option<usize>> {
        let fixed = |length: &RowLength| match length {
            RowLength::All(length) => Some(*length),
            RowLength::Open | RowLength::Varies => None,
        };
        let inner: Option<Vec<usize>> = self.inner.iter().map(fixed).collect();
        let inner = match inner {
            Some(lengths) => lengths.into_iter().map(Some).collect(),
            None => vec![None; self.inner.len()],
        };
        [vec![None], inner].concat()
    }

    fn as_str(&self) -> String {
        match (self.is_list, self.inner.len()) {
            (false, _) => format!("one {}", self.dtype),
            (true, 0) => format!("a list of {}", self.dtype),
            (true, 1) => format!("rows of {}", self.dtype),
            (true, more) => format!("{} of {} dimensions", self.dtype, more + 1),
        }
    }
}

impl RowLength {
    fn of(lengths: &[usize]) -> Self {
        let each = lengths.iter().map(|length| Self::All(*length));
        each.fold(Self::Open, Self::and)
    }

    fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Open, other) | (other, Self::Open) => other,
            (Self::All(one), Self::All(two)) if one == two => self,
            _ => Self::Varies,
        }
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
    fn rows_of_one_length_have_a_shape_and_others_are_ragged() {
        let rows = |rows: &[&[i32]]| Value::IntRows(rows.iter().map(|row| row.to_vec()).collect());
        let (two, none) = (rows(&[&[1, 2], &[3, 4]]), rows(&[]));
        let found = note(&[&[("a", none.clone())], &[("a", two.clone())], &[("a", none)]]);
        assert_eq!(found.unwrap(), ["a int32 [None, Some(2)]"]);
        for ragged in [rows(&[&[1, 2], &[3]]), rows(&[&[1]]), rows(&[&[]])] {
            let found = note(&[&[("a", two.clone())], &[("a", ragged)]]);
            assert_eq!(found.unwrap(), ["a int32 [None, None]"]);
        }
        let cube = Value::Lists(vec![two.clone(), two.clone()]);
        assert_eq!(note(&[&[("a", cube.clone())]]).unwrap(), ["a int32 [None, Some(2), Some(2)]"]);
        let uneven = Value::Lists(vec![two.clone(), rows(&[&[1, 2]])]);
        let found = note(&[&[("a", cube)], &[("a", uneven)]]);
        assert_eq!(found.unwrap(), ["a int32 [None, None, None]"]);
        let flat = note(&[&[("a", two)], &[("a", Value::Ints(vec![1]))]]).unwrap_err();
        assert_eq!(flat, "'a' is a list of int32, and rows of int32 in earlier examples");
    }

    #[test]
    fn examples_that_differ_are_refused() {
        let (int, float) = (Value::Int(1), Value::Float(1.5));
        let both = [("a", int.clone()), ("b", int.clone())];
        for (first, second, expected) in [
            (
                &both[..1],
                &[("a", float)][..],
                "'a' is one float32, and one int64 in earlier examples",
            ),
            (&both[..1], &both[..], "'b' is not in earlier examples"),
            (&both[..], &both[..1], "it lacks 'b', which earlier examples have"),
        ] {
            assert_eq!(note(&[first, second]).unwrap_err(), expected);
        }
    }
}
