//! The names and values of features: text, numbers or token ids.

use std::fmt;
use std::ops::{Deref, Range};
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

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

/// The value of a feature.
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
    /// Lists of one type and rank: rows of texts, and any value of a rank above 2.
    Lists(Vec<Value>),
}

/// The kind of a value's single items.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Leaf {
    Ints,
    Floats,
    Texts,
}

impl Value {
    /// A list of whole numbers: token ids if all fit in 32 bits.
    pub(crate) fn of_longs(longs: Vec<i64>) -> Self {
        let ids: Result<Vec<i32>, _> = longs.iter().map(|long| i32::try_from(*long)).collect();
        ids.map_or_else(|_| Self::Longs(longs), Self::Ints)
    }

    /// Name of the type in messages, such as `a list of ints`.
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
            Self::Lists(_) => match (self.rank(), self.leaf()) {
                (2, Leaf::Texts) => "a list of lists of texts",
                (2, _) => "a list of lists of long ints",
                (_, Leaf::Texts) => "texts of three dimensions or more",
                _ => "numbers of three dimensions or more",
            },
        }
    }

    /// Number of dimensions.
    pub fn rank(&self) -> usize {
        match self {
            Self::Lists(lists) => 1 + lists.iter().map(Self::rank).max().unwrap_or(1),
            Self::IntRows(_) | Self::FloatRows(_) => 2,
            Self::Ints(_) | Self::Longs(_) | Self::Floats(_) | Self::Texts(_) => 1,
            Self::Int(_) | Self::Float(_) | Self::Text(_) => 0,
        }
    }
}

impl Value {
    /// The kind of its single items. A list without values may be of any kind, and counts as ints.
    pub(crate) fn leaf(&self) -> Leaf {
        match self {
            Self::Int(_) | Self::Ints(_) | Self::Longs(_) | Self::IntRows(_) => Leaf::Ints,
            Self::Float(_) | Self::Floats(_) | Self::FloatRows(_) => Leaf::Floats,
            Self::Text(_) | Self::Texts(_) => Leaf::Texts,
            Self::Lists(lists) => {
                lists.iter().find(|list| !list.is_empty()).map_or(Leaf::Ints, Self::leaf)
            }
        }
    }

    /// Whether the value holds, in a list, whole numbers of which some do not fit in 32 bits.
    pub(crate) fn is_long(&self) -> bool {
        match self {
            Self::Longs(_) => true,
            Self::Lists(lists) => lists.iter().any(Self::is_long),
            _ => false,
        }
    }

    /// The same numbers as floats; texts stay as they are.
    pub(crate) fn into_floats(self) -> Self {
        match self {
            Self::Int(number) => Self::Float(number as f64),
            Self::Ints(ids) => Self::Floats(ids.into_iter().map(f64::from).collect()),
            Self::Longs(longs) => Self::Floats(longs.into_iter().map(|long| long as f64).collect()),
            Self::IntRows(rows) => {
                let floats = |row: Vec<i32>| row.into_iter().map(f64::from).collect();
                Self::FloatRows(rows.into_iter().map(floats).collect())
            }
            Self::Lists(lists) => {
                let lists = lists.into_iter().map(Self::into_floats).collect();
                Self::of_rows(lists).expect("all are floats of one rank")
            }
            other => other,
        }
    }

    /// A list without values, of a kind and rank.
    fn empty(leaf: Leaf, rank: usize) -> Self {
        match (leaf, rank) {
            (Leaf::Texts, ..=1) => Self::Texts(Vec::new()),
            (Leaf::Floats, ..=1) => Self::Floats(Vec::new()),
            (Leaf::Ints, ..=1) => Self::Ints(Vec::new()),
            (Leaf::Floats, 2) => Self::FloatRows(Vec::new()),
            (Leaf::Ints, 2) => Self::IntRows(Vec::new()),
            _ => Self::Lists(Vec::new()),
        }
    }

    /// The value in the type of its feature: whole numbers become floats where floats are expected,
    /// and a list without values, which has no type, takes the feature's type.
    pub(crate) fn fitted(self, leaf: Leaf, rank: usize) -> Self {
        match self.leaf() {
            _ if self.len() == Some(0) => Self::empty(leaf, rank),
            Leaf::Ints if leaf == Leaf::Floats => self.into_floats(),
            _ => self,
        }
    }

    /// All values in one list, row after row.
    pub(crate) fn flat(&self) -> Self {
        match self {
            Self::IntRows(rows) => Self::Ints(rows.concat()),
            Self::FloatRows(rows) => Self::Floats(rows.concat()),
            Self::Lists(lists) => {
                let (mut longs, mut floats, mut texts) = (Vec::new(), Vec::new(), Vec::new());
                for list in lists {
                    match list.flat() {
                        Self::Ints(ids) => longs.extend(ids.into_iter().map(i64::from)),
                        Self::Longs(numbers) => longs.extend(numbers),
                        Self::Floats(numbers) => floats.extend(numbers),
                        Self::Texts(more) => texts.extend(more),
                        _ => unreachable!("it is flat"),
                    }
                }
                match self.leaf() {
                    Leaf::Ints => Self::of_longs(longs),
                    Leaf::Floats => Self::Floats(floats),
                    Leaf::Texts => Self::Texts(texts),
                }
            }
            other => other.clone(),
        }
    }

    /// The lengths of the rows of each dimension but the first, in their order.
    pub fn row_lengths(&self) -> Vec<Vec<usize>> {
        match self {
            Self::IntRows(rows) => vec![rows.iter().map(Vec::len).collect()],
            Self::FloatRows(rows) => vec![rows.iter().map(Vec::len).collect()],
            Self::Lists(lists) => {
                let mut all = vec![lists.iter().filter_map(Self::len).collect::<Vec<usize>>()];
                for inner in lists.iter().map(Self::row_lengths) {
                    for (depth, lengths) in inner.into_iter().enumerate() {
                        match all.get_mut(depth + 1) {
                            Some(known) => known.extend(lengths),
                            None => all.push(lengths),
                        }
                    }
                }
                all
            }
            _ => Vec::new(),
        }
    }

    /// Cuts a list into rows of these lengths; `None` if the lengths do not add up to the list's
    /// length.
    pub(crate) fn cut(self, lengths: &[usize]) -> Option<Self> {
        fn rows<T>(list: Vec<T>, lengths: &[usize]) -> Option<Vec<Vec<T>>> {
            let all = lengths.iter().fold(0_usize, |sum, length| sum.saturating_add(*length));
            if all != list.len() {
                return None;
            }
            let mut items = list.into_iter();
            Some(lengths.iter().map(|length| items.by_ref().take(*length).collect()).collect())
        }
        fn lists<T>(rows: Option<Vec<Vec<T>>>, of: fn(Vec<T>) -> Value) -> Option<Value> {
            Some(Value::Lists(rows?.into_iter().map(of).collect()))
        }
        match self {
            Self::Ints(list) => rows(list, lengths).map(Self::IntRows),
            Self::Floats(list) => rows(list, lengths).map(Self::FloatRows),
            Self::Longs(list) => lists(rows(list, lengths), Self::Longs),
            Self::Texts(list) => lists(rows(list, lengths), Self::Texts),
            Self::IntRows(list) => lists(rows(list, lengths), Self::IntRows),
            Self::FloatRows(list) => lists(rows(list, lengths), Self::FloatRows),
            Self::Lists(list) => lists(rows(list, lengths), Self::Lists),
            Self::Int(_) | Self::Float(_) | Self::Text(_) => None,
        }
    }

    /// Rows of one type; `None` if they have several types, or if one is a single value.
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
        if rows.iter().all(|row| matches!(row, Self::Ints(_) | Self::Floats(_))) {
            return rows.into_iter().map(floats).collect::<Option<_>>().map(Self::FloatRows);
        }
        Self::of_lists(rows)
    }

    /// Lists in one list; lists without values take the type of the others.
    fn of_lists(lists: Vec<Self>) -> Option<Self> {
        let rank = lists.iter().map(Self::rank).max()?;
        let full = || lists.iter().filter(|list| !list.is_empty());
        let mut leaf = full().next().map_or(Leaf::Ints, Self::leaf);
        if full().all(|list| list.leaf() != Leaf::Texts)
            && full().any(|list| list.leaf() == Leaf::Floats)
        {
            leaf = Leaf::Floats;
        }
        let fits = |list: &Self| {
            list.len() == Some(0)
                || (list.rank() == rank && (list.is_empty() || list.leaf() == leaf))
        };
        let lists: Vec<Self> = lists.into_iter().map(|list| list.fitted(leaf, rank)).collect();
        (rank > 0 && lists.iter().all(fits)).then_some(Self::Lists(lists))
    }
}

/// Does the same to a list of any type, or `else` if the value is not a list.
macro_rules! with_list {
    ($value:expr, $list:ident => $do:expr, else $otherwise:expr) => {
        match $value {
            Value::Ints($list) => $do,
            Value::Longs($list) => $do,
            Value::Floats($list) => $do,
            Value::Texts($list) => $do,
            Value::IntRows($list) => $do,
            Value::FloatRows($list) => $do,
            Value::Lists($list) => $do,
            Value::Int(_) | Value::Float(_) | Value::Text(_) => $otherwise,
        }
    };
}

impl Value {
    /// Length of the first dimension; `None` for a single value.
    pub fn len(&self) -> Option<usize> {
        with_list!(self, list => Some(list.len()), else None)
    }

    /// Whether no value is held: an empty list, or one of empty rows.
    pub fn is_empty(&self) -> bool {
        match self {
            Self::IntRows(rows) => rows.iter().all(Vec::is_empty),
            Self::FloatRows(rows) => rows.iter().all(Vec::is_empty),
            Self::Lists(lists) => lists.iter().all(Self::is_empty),
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
            Self::Lists(list) => list.chunks(length).map(|run| Self::Lists(run.into())).collect(),
            Self::Int(_) | Self::Float(_) | Self::Text(_) => vec![self.clone()],
        }
    }
}
