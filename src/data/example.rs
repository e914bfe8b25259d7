//! One example: named features of text, numbers or token ids.

use std::fmt;
use std::ops::{Deref, Range};
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::source::SourceFile;

/// The name of a feature, cheap to copy into every example.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key(Arc<str>);

impl From<&str> for Key {
    fn from(name: &str) -> Self {
        Self(name.into())
    }
}

impl From<String> for Key {
    fn from(name: String) -> Self {
        Self(name.into())
    }
}

impl Deref for Key {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Serialize for Key {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Key {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(Self::from)
    }
}

/// What a feature holds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Value {
    /// Token ids, rank 1.
    Ints(Vec<i32>),
    /// A whole number, rank 0.
    Int(i64),
    /// A number, rank 0.
    Float(f64),
    /// A text, rank 0.
    Text(String),
    /// Whole numbers of which some do not fit in 32 bits, rank 1.
    Longs(Vec<i64>),
    /// Numbers, rank 1.
    Floats(Vec<f64>),
    /// Texts, rank 1.
    Texts(Vec<String>),
    /// Rows of token ids, of any lengths; rank 2.
    IntRows(Vec<Vec<i32>>),
    /// Rows of numbers, of any lengths; rank 2.
    FloatRows(Vec<Vec<f64>>),
}

impl Value {
    /// A list of whole numbers: token ids if all fit in 32 bits.
    pub(crate) fn of_longs(longs: Vec<i64>) -> Self {
        let ids: Result<Vec<i32>, _> = longs.iter().map(|long| i32::try_from(*long)).collect();
        ids.map_or_else(|_| Self::Longs(longs), Self::Ints)
    }

    /// What a user would call it: `ids`, `text`.
    pub fn type_name(&self) -> &'static str {
        match self {
            Self::Ints(_) | Self::Longs(_) => "a list of ints",
            Self::Int(_) => "an int",
            Self::Float(_) => "a float",
            Self::Text(_) => "text",
            Self::Floats(_) => "a list of floats",
            Self::Texts(_) => "a list of texts",
            Self::IntRows(_) => "a list of lists of ints",
            Self::FloatRows(_) => "a list of lists of floats",
        }
    }

    /// Number of dimensions.
    pub fn rank(&self) -> usize {
        match self {
            Self::IntRows(_) | Self::FloatRows(_) => 2,
            Self::Ints(_) | Self::Longs(_) | Self::Floats(_) | Self::Texts(_) => 1,
            Self::Int(_) | Self::Float(_) | Self::Text(_) => 0,
        }
    }
}

impl Value {
    /// Rows of numbers; `None` where one is none, or does not fit in 32 bits.
    pub(crate) fn of_rows(rows: Vec<Self>) -> Option<Self> {
        if rows.iter().all(|row| matches!(row, Self::Ints(_))) {
            let ints = |row| if let Self::Ints(ids) = row { Some(ids) } else { None };
            return Some(Self::IntRows(rows.into_iter().filter_map(ints).collect()));
        }
        let floats = |row| match row {
            Self::Ints(ids) => Some(ids.into_iter().map(f64::from).collect()),
            Self::Floats(numbers) => Some(numbers),
            _ => None,
        };
        rows.into_iter().map(floats).collect::<Option<_>>().map(Self::FloatRows)
    }
}

/// Does the same to whatever list a value is, or `else` where it is none.
macro_rules! with_list {
    ($value:expr, $list:ident => $do:expr, else $otherwise:expr) => {
        match $value {
            Value::Ints($list) => $do,
            Value::Longs($list) => $do,
            Value::Floats($list) => $do,
            Value::Texts($list) => $do,
            Value::IntRows($list) => $do,
            Value::FloatRows($list) => $do,
            Value::Int(_) | Value::Float(_) | Value::Text(_) => $otherwise,
        }
    };
}

impl Value {
    /// Length of the first dimension; `None` where there is none.
    pub fn len(&self) -> Option<usize> {
        with_list!(self, list => Some(list.len()), else None)
    }

    /// Whether no value is held: an empty list, or one of empty rows.
    pub fn is_empty(&self) -> bool {
        match self {
            Self::IntRows(rows) => rows.iter().all(Vec::is_empty),
            Self::FloatRows(rows) => rows.iter().all(Vec::is_empty),
            other => other.len() == Some(0),
        }
    }

    /// Keeps this range of the first dimension, which it must hold; single values stay as they are.
    pub(crate) fn keep(&mut self, range: Range<usize>) {
        with_list!(self, list => {
            list.truncate(range.end);
            list.drain(..range.start);
        }, else {});
    }

    /// Keeps the first `length` of the first dimension.
    pub(crate) fn truncate(&mut self, length: usize) {
        with_list!(self, list => list.truncate(length), else {});
    }

    /// Runs of `length` of the first dimension, the last one shorter; single values are one run.
    pub(crate) fn pieces(&self, length: usize) -> Vec<Self> {
        match self {
            Self::Ints(list) => list.chunks(length).map(|run| Self::Ints(run.into())).collect(),
            Self::Longs(list) => list.chunks(length).map(|run| Self::Longs(run.into())).collect(),
            Self::Floats(list) => list.chunks(length).map(|run| Self::Floats(run.into())).collect(),
            Self::Texts(list) => list.chunks(length).map(|run| Self::Texts(run.into())).collect(),
            Self::IntRows(list) => {
                list.chunks(length).map(|run| Self::IntRows(run.into())).collect()
            }
            Self::FloatRows(list) => {
                list.chunks(length).map(|run| Self::FloatRows(run.into())).collect()
            }
            Self::Int(_) | Self::Float(_) | Self::Text(_) => vec![self.clone()],
        }
    }
}

/// Where an example was read.
#[derive(Clone, Debug)]
pub(crate) struct Origin {
    pub file: Arc<SourceFile>,
    /// The line or other record, from 1.
    pub number: u64,
    /// Where it begins, in uncompressed bytes, where records are read by them.
    pub offset: u64,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.file.place(self.number, self.offset).fmt(f)
    }
}

/// Features by name. A handful, so a list is searched faster than any map.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Example {
    features: Vec<(Key, Value)>,
    /// For messages only; unknown where several examples were joined.
    #[serde(skip)]
    origin: Option<Origin>,
}

/// Where an example comes from is no part of what it is.
impl PartialEq for Example {
    fn eq(&self, other: &Self) -> bool {
        self.features == other.features
    }
}

impl Example {
    /// An example of one feature.
    pub fn of(key: Key, value: Value) -> Self {
        Self::from_iter([(key, value)])
    }

    /// The same example, read at `origin`.
    pub(crate) fn read_at(self, origin: Option<Origin>) -> Self {
        Self { origin, ..self }
    }

    /// Where it was read; `None` where it was made of several.
    pub(crate) fn origin(&self) -> Option<&Origin> {
        self.origin.as_ref()
    }

    /// Takes the memory of where it was read.
    pub(crate) fn take_origin(&mut self) -> Option<Origin> {
        self.origin.take()
    }

    /// The value of a feature.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.features.iter().find(|(name, _)| **name == *key).map(|(_, value)| value)
    }

    /// The token ids of a feature, if it holds ids.
    pub fn ints(&self, key: &str) -> Option<&[i32]> {
        match self.get(key) {
            Some(Value::Ints(ids)) => Some(ids),
            _ => None,
        }
    }

    /// The text of a feature, if it holds text.
    pub fn text(&self, key: &str) -> Option<&str> {
        match self.get(key) {
            Some(Value::Text(text)) => Some(text),
            _ => None,
        }
    }

    /// Sets a feature, replacing what it held.
    pub fn set(&mut self, key: Key, value: Value) {
        match self.features.iter_mut().find(|(name, _)| *name == key) {
            Some((_, held)) => *held = value,
            None => self.features.push((key, value)),
        }
    }

    /// Takes a feature out.
    pub fn take(&mut self, key: &str) -> Option<Value> {
        let index = self.features.iter().position(|(name, _)| **name == *key)?;
        Some(self.features.remove(index).1)
    }

    /// The value of a feature, to be changed.
    pub(crate) fn get_mut(&mut self, key: &str) -> Option<&mut Value> {
        self.features.iter_mut().find(|(name, _)| **name == *key).map(|(_, value)| value)
    }

    /// The features in the order they were set.
    pub fn iter(&self) -> impl Iterator<Item = (&Key, &Value)> {
        self.features.iter().map(|(key, value)| (key, value))
    }

    /// The features, to be changed.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (&Key, &mut Value)> {
        self.features.iter_mut().map(|(key, value)| (&*key, value))
    }

    /// Drops the features that `keep` refuses.
    pub fn retain(&mut self, mut keep: impl FnMut(&str) -> bool) {
        self.features.retain(|(name, _)| keep(name));
    }

    /// The names, as an error lists them: 'inputs', 'targets'.
    pub fn names(&self) -> String {
        let names: Vec<String> =
            self.features.iter().map(|(name, _)| format!("'{name}'")).collect();
        if names.is_empty() { "none".to_string() } else { names.join(", ") }
    }
}

impl FromIterator<(Key, Value)> for Example {
    fn from_iter<I: IntoIterator<Item = (Key, Value)>>(features: I) -> Self {
        Self { features: features.into_iter().collect(), origin: None }
    }
}
