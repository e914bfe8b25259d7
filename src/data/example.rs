//! One example: named features, and the place from which they were read.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::source::SourceFile;
use super::value::{Key, Leaf, Value};

/// The place from which an example was read.
#[derive(Clone, Debug)]
pub(crate) struct Origin {
    pub file: Arc<SourceFile>,
    /// The line or other record, from 1.
    pub number: u64,
    /// Byte offset of the record in the uncompressed file, for records that are read by offset.
    pub offset: u64,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.file.place(self.number, self.offset).fmt(f)
    }
}

/// Features by name. There are only a few, so searching a list is faster than any map.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Example {
    features: Vec<(Key, Value)>,
    /// For messages only; unknown if several examples were joined.
    #[serde(skip)]
    origin: Option<Origin>,
    /// Features that were cut to the model's length.
    #[serde(skip)]
    cut: Vec<Key>,
}

/// The origin of an example is not part of its value.
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

    /// The place from which the example was read; `None` if it was made of several examples.
    pub(crate) fn origin(&self) -> Option<&Origin> {
        self.origin.as_ref()
    }

    /// Takes the origin out of the example.
    pub(crate) fn take_origin(&mut self) -> Option<Origin> {
        self.origin.take()
    }

    /// Notes that a feature was cut to the model's length.
    pub(crate) fn mark_cut(&mut self, key: &str) {
        if !self.was_cut(key) {
            self.cut.push(Key::from(key));
        }
    }

    /// Whether a feature was cut to the model's length.
    pub fn was_cut(&self, key: &str) -> bool {
        self.cut.iter().any(|cut| **cut == *key)
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

    /// The texts of a feature, if it holds a list of texts; else none.
    pub fn texts(&self, key: &str) -> &[String] {
        match self.get(key) {
            Some(Value::Texts(texts)) => texts,
            _ => &[],
        }
    }

    /// Sets a feature and replaces its former value.
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

    /// The value of a feature, for changes.
    pub(crate) fn get_mut(&mut self, key: &str) -> Option<&mut Value> {
        self.features.iter_mut().find(|(name, _)| **name == *key).map(|(_, value)| value)
    }

    /// Converts whole numbers of a float feature, and lists without values, to the feature's type.
    pub(crate) fn fit(&mut self, key: &str, leaf: Leaf, rank: usize) {
        if let Some(value) = self.get_mut(key)
            && (value.len() == Some(0) || (leaf == Leaf::Floats && value.leaf() == Leaf::Ints))
        {
            let held = std::mem::replace(value, Value::Int(0));
            *value = held.fitted(leaf, rank);
        }
    }

    /// The features in the order they were set.
    pub fn iter(&self) -> impl Iterator<Item = (&Key, &Value)> {
        self.features.iter().map(|(key, value)| (key, value))
    }

    /// The features, for changes.
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
        Self { features: features.into_iter().collect(), ..Self::default() }
    }
}
