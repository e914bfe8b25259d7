//! Python's dict: equal keys are one key, with the first one's place and the last one's value.

use std::collections::HashMap;

use num_bigint::BigInt;
use num_traits::FromPrimitive;

use super::source::Span;
use super::value::{Value, ValueKind};

/// The entries of a dict literal, duplicates merged as they come.
pub(super) struct Entries {
    entries: Vec<(Value, Value)>,
    /// Index of each key in `entries`.
    places: HashMap<String, usize>,
}

impl Entries {
    pub fn with_capacity(size: usize) -> Self {
        Self { entries: Vec::with_capacity(size), places: HashMap::with_capacity(size) }
    }

    /// Adds an entry. If the key exists already, returns the places of its earlier and this use.
    pub fn insert(&mut self, key: Value, value: Value) -> Option<(Span, Span)> {
        match self.places.get(&identity(&key)) {
            Some(&at) => {
                self.entries[at].1 = value;
                Some((self.entries[at].0.span, key.span))
            }
            None => {
                self.places.insert(identity(&key), self.entries.len());
                self.entries.push((key, value));
                None
            }
        }
    }

    pub fn into_vec(self) -> Vec<(Value, Value)> {
        self.entries
    }
}

/// Refuses keys that Python cannot hash, with the name of the type that is not hashable.
pub(super) fn check_key(key: &Value) -> Result<(), &'static str> {
    match &key.kind {
        kind @ (ValueKind::List(_) | ValueKind::Dict(_)) => Err(kind.type_name()),
        ValueKind::Tuple(items) => items.iter().try_for_each(check_key),
        _ => Ok(()),
    }
}

/// Returns a text that is the same for keys that Python takes as equal, such as `1`, `1.0` and `True`.
fn identity(key: &Value) -> String {
    match &key.kind {
        ValueKind::Bool(value) => u8::from(*value).to_string(),
        ValueKind::Float(value) | ValueKind::Complex(value, 0.0) if value.fract() == 0.0 => {
            BigInt::from_f64(*value).expect("the value is finite").to_string()
        }
        ValueKind::Tuple(items) => {
            let items: Vec<String> = items.iter().map(identity).collect();
            format!("({})", items.join(","))
        }
        kind => kind.to_string(),
    }
}
