//! Conversion of `tf.Example` and `tf.SequenceExample` protos to examples. Source: TensorFlow
//! `core/example/{example,feature}.proto`.
//!
//! Decoding scans the bytes once and copies only the requested features.

use super::tf_values::{Values, value_of};
use super::wire::{Field, Wire};
use crate::example::Example;
use crate::value::{Key, Value};

/// The type of a feature's values in a proto, which has only three types.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TfKind {
    Ints,
    Floats,
    Texts,
}

/// The number of values of a feature.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum TfShape {
    /// One, of rank 0.
    One,
    /// A list of any length.
    List,
    /// A list of this length.
    Fixed(usize),
    /// Rows, cut dimension by dimension; any number of rows, or `count`.
    Rows { count: Option<usize>, inner: Vec<Partition> },
}

/// The lengths of the rows of a dimension.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Partition {
    /// All have this length.
    Uniform(usize),
    /// The proto's feature of this name holds them.
    Lengths(String),
}

/// A feature to be read from every proto.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TfFeature {
    /// Name in the proto.
    pub stored: String,
    /// Name in the example.
    pub key: Key,
    pub kind: TfKind,
    pub shape: TfShape,
    /// Value for a missing feature; without it a missing feature is an error, except for lists of
    /// any length.
    pub default: Option<Value>,
    /// Whether only other features need it, as the lengths of their rows.
    pub is_hidden: bool,
    /// Whether the feature has one value for each step, in a `tf.SequenceExample`.
    pub by_step: bool,
}

impl TfFeature {
    /// A feature that has the same name in the example.
    pub(crate) fn new(name: &str, kind: TfKind, shape: TfShape) -> Self {
        let (stored, key) = (name.to_string(), name.into());
        Self { stored, key, kind, shape, default: None, is_hidden: false, by_step: false }
    }

    /// A feature of rows, and the hidden features with their lengths.
    pub(crate) fn of_rows(
        stored: &str,
        key: &str,
        kind: TfKind,
        count: Option<usize>,
        inner: Vec<Partition>,
    ) -> Vec<Self> {
        let hidden = inner.iter().filter_map(|partition| match partition {
            Partition::Uniform(_) => None,
            Partition::Lengths(name) => {
                let lengths = Self::new(name, TfKind::Ints, TfShape::List);
                Some(Self { is_hidden: true, ..lengths })
            }
        });
        let hidden: Vec<Self> = hidden.collect();
        let rows = Self::new(stored, kind, TfShape::Rows { count, inner });
        [vec![Self { key: key.into(), ..rows }], hidden].concat()
    }
}

/// The type of proto of the records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProtoKind {
    Example,
    SequenceExample,
}

/// Decodes a serialized proto to an example, or describes the mistake in it.
pub(crate) fn decode(
    features: &[TfFeature],
    layout: ProtoKind,
    bytes: &[u8],
) -> Result<Example, String> {
    let name = match layout {
        ProtoKind::Example => "tf.Example",
        ProtoKind::SequenceExample => "tf.SequenceExample",
    };
    let mut found: Vec<Option<Values>> = features.iter().map(|_| None).collect();
    let collected = collect(features, layout, bytes, &mut found);
    collected.map_err(|wrong| match wrong {
        Wrong::Proto(reason) => format!("no {name}: {reason}"),
        Wrong::Feature(name, reason) => format!("'{name}' {reason}"),
    })?;
    let shown = features.iter().enumerate().filter(|(_, feature)| !feature.is_hidden);
    let values = shown.map(|(index, feature)| {
        let values = found[index].take();
        let value = value_of(feature, values, |stored| {
            let at = features.iter().position(|feature| feature.stored == stored)?;
            found[at].as_ref()?.as_lengths()
        });
        Ok((feature.key.clone(), value.map_err(|reason| format!("'{}' {reason}", feature.stored))?))
    });
    values.collect()
}

enum Wrong {
    /// The bytes are not such a proto.
    Proto(String),
    /// The feature of that name is not of the expected type.
    Feature(String, String),
}

impl From<String> for Wrong {
    fn from(reason: String) -> Self {
        Self::Proto(reason)
    }
}

fn collect(
    features: &[TfFeature],
    layout: ProtoKind,
    bytes: &[u8],
    found: &mut [Option<Values>],
) -> Result<(), Wrong> {
    let mut message = Wire::new(bytes);
    while let Some(field) = message.next_field()? {
        let (by_step, map) = match field {
            (1, Field::Bytes(map)) => (false, map),
            (2, Field::Bytes(map)) if layout == ProtoKind::SequenceExample => (true, map),
            _ => continue,
        };
        let mut map = Wire::new(map);
        while let Some(entry) = map.next_field()? {
            let (1, Field::Bytes(entry)) = entry else { continue };
            let (name, value) = entry_of(entry)?;
            let is_it = |feature: &TfFeature| {
                feature.by_step == by_step && feature.stored.as_bytes() == name
            };
            for (feature, found) in features.iter().zip(&mut *found) {
                if is_it(feature) {
                    let values = if by_step { steps(feature, value) } else { list(feature, value) };
                    *found = values.map_err(|e| Wrong::Feature(feature.stored.clone(), e))?;
                }
            }
        }
    }
    Ok(())
}

/// Name and value of an entry of a map.
fn entry_of(entry: &[u8]) -> Result<(&[u8], &[u8]), String> {
    let (mut name, mut value) = (&[][..], &[][..]);
    let mut message = Wire::new(entry);
    while let Some(field) = message.next_field()? {
        match field {
            (1, Field::Bytes(bytes)) => name = bytes,
            (2, Field::Bytes(bytes)) => value = bytes,
            _ => {}
        }
    }
    Ok((name, value))
}

/// The values of the `Feature`s of a `FeatureList`, one after the other.
fn steps(feature: &TfFeature, bytes: &[u8]) -> Result<Option<Values>, String> {
    let mut all = Values::new(feature.kind);
    let mut message = Wire::new(bytes);
    while let Some(field) = message.next_field()? {
        if let (1, Field::Bytes(step)) = field {
            let before = all.len();
            values_of(feature.kind, step, &mut all)?;
            let found = all.len() - before;
            if found != 1 {
                return Err(format!("holds {found} values in one step, expected one"));
            }
        }
    }
    Ok(Some(all))
}

/// The values of a `Feature`; `None` if it has no type, which is possible for lists without values.
fn list(feature: &TfFeature, bytes: &[u8]) -> Result<Option<Values>, String> {
    let mut all = Values::new(feature.kind);
    Ok(values_of(feature.kind, bytes, &mut all)?.then_some(all))
}

/// Adds the values of a `Feature`, and returns whether it has a type.
fn values_of(kind: TfKind, bytes: &[u8], into: &mut Values) -> Result<bool, String> {
    let mut message = Wire::new(bytes);
    let mut has_type = false;
    while let Some((number, field)) = message.next_field()? {
        let Field::Bytes(list) = field else { continue };
        let found = match number {
            1 => TfKind::Texts,
            2 => TfKind::Floats,
            3 => TfKind::Ints,
            _ => continue,
        };
        if found != kind {
            return Err(format!("holds {}, expected {}", found.as_str(), kind.as_str()));
        }
        has_type = true;
        let mut list = Wire::new(list);
        while let Some(value) = list.next_field()? {
            into.push(value)?;
        }
    }
    Ok(has_type)
}

impl TfKind {
    fn as_str(self) -> &'static str {
        match self {
            Self::Ints => "ints",
            Self::Floats => "floats",
            Self::Texts => "bytes",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::source::encode;

    fn feature(name: &str, kind: TfKind, is_list: bool) -> TfFeature {
        TfFeature::new(name, kind, if is_list { TfShape::List } else { TfShape::One })
    }

    fn rows(count: Option<usize>, length: usize) -> TfShape {
        TfShape::Rows { count, inner: vec![Partition::Uniform(length)] }
    }

    fn texts(texts: &[&str]) -> Value {
        Value::Texts(texts.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn ragged_rows_and_tensors_of_three_dimensions_come_back_as_they_were() {
        let ragged = Value::IntRows(vec![vec![1, 2], vec![], vec![3]]);
        let words = Value::Lists(vec![texts(&["a"]), texts(&[]), texts(&["b", "c"])]);
        let cube = Value::Lists(vec![
            Value::FloatRows(vec![vec![1.0, 2.0], vec![3.0, 4.0]]),
            Value::FloatRows(vec![vec![5.0, 6.0], vec![7.0, 8.0]]),
        ]);
        let deep = Value::Lists(vec![ragged.clone(), Value::IntRows(vec![vec![], vec![4]])]);
        let all = [("ragged", &ragged), ("words", &words), ("cube", &cube), ("deep", &deep)];
        let example: Example =
            all.iter().map(|(name, value)| ((*name).into(), (*value).clone())).collect();
        let lengths = |name: &str, depth| Partition::Lengths(format!("_rl:{depth}:{name}"));
        let uniform = || vec![Partition::Uniform(2), Partition::Uniform(2)];
        let of_rows =
            |name: &str, kind, count, inner| TfFeature::of_rows(name, name, kind, count, inner);
        let features = [
            of_rows("ragged", TfKind::Ints, None, vec![lengths("ragged", 0)]),
            of_rows("words", TfKind::Texts, None, vec![lengths("words", 0)]),
            of_rows("cube", TfKind::Floats, Some(2), uniform()),
            of_rows("deep", TfKind::Ints, None, vec![lengths("deep", 0), lengths("deep", 1)]),
        ];
        let bytes = encode(&example);
        assert_eq!(decode(&features.concat(), ProtoKind::Example, &bytes).unwrap(), example);
        let wrong = of_rows("ragged", TfKind::Ints, None, vec![lengths("words", 0)]);
        let error =
            decode(&wrong, ProtoKind::Example, &encode(&Example::of("ragged".into(), ragged)));
        assert_eq!(error.unwrap_err(), "'ragged' lacks the lengths of its rows, '_rl:0:words'");
    }

    #[test]
    fn an_example_comes_back_as_it_was() {
        let all = [
            ("empty", Value::Floats(vec![]), TfKind::Floats, TfShape::List),
            ("float", Value::Float(0.5), TfKind::Floats, TfShape::One),
            ("floats", Value::Floats(vec![-1.5, 2.0]), TfKind::Floats, TfShape::List),
            ("longs", Value::Longs(vec![1, -2, 1 << 40, 3]), TfKind::Ints, TfShape::List),
            ("ids", Value::Ints(vec![1, -1, i32::MAX]), TfKind::Ints, TfShape::Fixed(3)),
            ("int", Value::Int(-1 << 40), TfKind::Ints, TfShape::One),
            ("no rows", Value::IntRows(vec![]), TfKind::Ints, rows(None, 4)),
            ("rows", Value::IntRows(vec![vec![1, 2], vec![3, 4]]), TfKind::Ints, rows(None, 2)),
            ("scores", Value::FloatRows(vec![vec![0.5]]), TfKind::Floats, rows(Some(1), 1)),
            ("text", Value::Text("ä".to_string()), TfKind::Texts, TfShape::One),
            (
                "texts",
                Value::Texts(vec![String::new(), "b".to_string()]),
                TfKind::Texts,
                TfShape::List,
            ),
        ];
        let example: Example =
            all.iter().map(|(name, value, ..)| ((*name).into(), value.clone())).collect();
        let features = all.map(|(name, _, kind, shape)| TfFeature::new(name, kind, shape));
        assert_eq!(decode(&features, ProtoKind::Example, &encode(&example)).unwrap(), example);
    }

    #[test]
    fn what_does_not_fit_is_named() {
        let ids = encode(&Example::of("a".into(), Value::Int(1 << 40)));
        let three = encode(&Example::of("a".into(), Value::Ints(vec![1, 2, 3])));
        // {"a": bytes_list [b"\xff"]}
        let bad_text = b"\x0a\x0c\x0a\x0a\x0a\x01a\x12\x05\x0a\x03\x0a\x01\xff".to_vec();
        for (bytes, feature, expected) in [
            (&ids, feature("a", TfKind::Texts, true), "'a' holds ints, expected bytes"),
            (&ids, feature("b", TfKind::Ints, false), "'b' is missing"),
            (
                &three,
                TfFeature::new("a", TfKind::Ints, rows(None, 2)),
                "'a' holds 3 values, expected rows of 2",
            ),
            (
                &three,
                TfFeature::new("a", TfKind::Ints, rows(Some(2), 2)),
                "'a' holds 3 values, expected 2 x 2",
            ),
            (&bad_text, feature("a", TfKind::Texts, false), "'a' is not UTF-8"),
            (&vec![0xff], feature("a", TfKind::Ints, true), "no tf.Example"),
        ] {
            let error = decode(&[feature], ProtoKind::Example, bytes).unwrap_err();
            assert!(error.starts_with(expected), "{error}");
        }
    }

    proptest::proptest! {
        #[test]
        fn arbitrary_bytes_are_an_error_and_no_panic(
            mut bytes: Vec<u8>,
            at: proptest::sample::Index,
            by: u8,
        ) {
            let features =
                [feature("a", TfKind::Ints, true), feature("b", TfKind::Texts, false)];
            let _ = decode(&features, ProtoKind::SequenceExample, &bytes);
            let example = [("a", Value::Ints(vec![1, -1, 300])), ("b", Value::Text("x".into()))];
            let example = example.map(|(name, value)| (name.into(), value));
            bytes = encode(&example.into_iter().collect());
            let at = at.index(bytes.len());
            bytes[at] = by;
            let _ = decode(&features, ProtoKind::Example, &bytes);
        }
    }
}
