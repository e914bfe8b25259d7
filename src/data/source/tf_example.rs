//! `tf.Example` protos to examples and back. Source: TensorFlow `core/example/feature.proto`.

use std::collections::BTreeMap;

use prost::Message;

use crate::data::example::{Example, Key, Value};

/// `tensorflow.Example`.
#[derive(Clone, PartialEq, Message)]
struct TfExample {
    #[prost(message, optional, tag = "1")]
    features: Option<Features>,
}

#[derive(Clone, PartialEq, Message)]
struct Features {
    #[prost(btree_map = "string, message", tag = "1")]
    feature: BTreeMap<String, Feature>,
}

#[derive(Clone, PartialEq, Message)]
struct Feature {
    #[prost(oneof = "Kind", tags = "1, 2, 3")]
    kind: Option<Kind>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
enum Kind {
    #[prost(message, tag = "1")]
    Bytes(BytesList),
    #[prost(message, tag = "2")]
    Floats(FloatList),
    #[prost(message, tag = "3")]
    Ints(Int64List),
}

#[derive(Clone, PartialEq, Message)]
struct BytesList {
    #[prost(bytes = "vec", repeated, tag = "1")]
    value: Vec<Vec<u8>>,
}

#[derive(Clone, PartialEq, Message)]
struct FloatList {
    #[prost(float, repeated, tag = "1")]
    value: Vec<f32>,
}

#[derive(Clone, PartialEq, Message)]
struct Int64List {
    #[prost(int64, repeated, tag = "1")]
    value: Vec<i64>,
}

/// What a feature's values are in a proto, which has three types only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TfKind {
    Ints,
    Floats,
    Texts,
}

/// A feature to be read from every `tf.Example`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TfFeature {
    /// Its name in the proto.
    pub stored: String,
    /// Its name in the example.
    pub key: Key,
    pub kind: TfKind,
    /// A list rather than one value.
    pub is_list: bool,
}

/// The example that a serialized proto is, or what is wrong with it.
pub(crate) fn decode(features: &[TfFeature], bytes: &[u8]) -> Result<Example, String> {
    let proto = TfExample::decode(bytes).map_err(|error| format!("no tf.Example: {error}"))?;
    let mut stored = proto.features.unwrap_or_default().feature;
    let values = features.iter().map(|feature| {
        // A list without values has no type, or is left out.
        let kind = stored.remove(&feature.stored).and_then(|stored| stored.kind);
        let value = value_of(feature, kind);
        Ok((feature.key.clone(), value.map_err(|reason| format!("'{}' {reason}", feature.stored))?))
    });
    values.collect()
}

fn value_of(feature: &TfFeature, kind: Option<Kind>) -> Result<Value, String> {
    match (feature.kind, kind) {
        (TfKind::Ints, Some(Kind::Ints(Int64List { value }))) => match feature.is_list {
            true => Ok(Value::Ints(value.into_iter().map(id).collect::<Result<_, _>>()?)),
            false => single(value).map(Value::Int),
        },
        (TfKind::Floats, Some(Kind::Floats(FloatList { value }))) => match feature.is_list {
            true => Ok(Value::Floats(value.into_iter().map(f64::from).collect())),
            false => single(value).map(|number| Value::Float(number.into())),
        },
        (TfKind::Texts, Some(Kind::Bytes(BytesList { value }))) => match feature.is_list {
            true => Ok(Value::Texts(value.into_iter().map(text).collect::<Result<_, _>>()?)),
            false => single(value).and_then(text).map(Value::Text),
        },
        (TfKind::Ints, None) if feature.is_list => Ok(Value::Ints(Vec::new())),
        (TfKind::Floats, None) if feature.is_list => Ok(Value::Floats(Vec::new())),
        (TfKind::Texts, None) if feature.is_list => Ok(Value::Texts(Vec::new())),
        (_, None) => Err("is missing".to_string()),
        (expected, Some(found)) => {
            Err(format!("holds {}, expected {}", found.as_str(), expected.as_str()))
        }
    }
}

fn single<T>(values: Vec<T>) -> Result<T, String> {
    let found = values.len();
    let [value] =
        <[T; 1]>::try_from(values).map_err(|_| format!("holds {found} values, expected one"))?;
    Ok(value)
}

fn id(value: i64) -> Result<i32, String> {
    i32::try_from(value).map_err(|_| format!("holds {value}, which does not fit in 32 bits"))
}

fn text(bytes: Vec<u8>) -> Result<String, String> {
    String::from_utf8(bytes).map_err(|_| "is not UTF-8".to_string())
}

/// The serialized proto of an example, its features sorted by name.
pub(crate) fn encode(example: &Example) -> Vec<u8> {
    let feature = example.iter().map(|(key, value)| {
        let feature = Feature { kind: kind_of(value) };
        (key.to_string(), feature)
    });
    TfExample { features: Some(Features { feature: feature.collect() }) }.encode_to_vec()
}

/// Lists without values have no type, so that they fit every one.
fn kind_of(value: &Value) -> Option<Kind> {
    let ints = |value: Vec<i64>| Kind::Ints(Int64List { value });
    let floats = |value: Vec<f32>| Kind::Floats(FloatList { value });
    let bytes = |value: Vec<Vec<u8>>| Kind::Bytes(BytesList { value });
    let kind = match value {
        Value::Ints(ids) => ints(ids.iter().map(|&id| id.into()).collect()),
        Value::Floats(numbers) => floats(numbers.iter().map(|&number| number as f32).collect()),
        Value::Texts(texts) => bytes(texts.iter().map(|text| text.clone().into()).collect()),
        // The rows' lengths are lost: who writes refuses them.
        Value::IntRows(rows) => ints(rows.iter().flatten().map(|&id| id.into()).collect()),
        Value::FloatRows(rows) => floats(rows.iter().flatten().map(|&x| x as f32).collect()),
        Value::Int(number) => ints(vec![*number]),
        Value::Float(number) => floats(vec![*number as f32]),
        Value::Text(text) => bytes(vec![text.clone().into()]),
    };
    (!kind.is_empty()).then_some(kind)
}

impl Kind {
    fn is_empty(&self) -> bool {
        match self {
            Self::Bytes(list) => list.value.is_empty(),
            Self::Floats(list) => list.value.is_empty(),
            Self::Ints(list) => list.value.is_empty(),
        }
    }

    fn as_str(&self) -> &'static str {
        match self {
            Self::Bytes(_) => TfKind::Texts.as_str(),
            Self::Floats(_) => TfKind::Floats.as_str(),
            Self::Ints(_) => TfKind::Ints.as_str(),
        }
    }
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

    fn feature(name: &str, kind: TfKind, is_list: bool) -> TfFeature {
        TfFeature { stored: name.to_string(), key: name.into(), kind, is_list }
    }

    #[test]
    fn an_example_comes_back_as_it_was() {
        let all = [
            ("empty", Value::Floats(vec![]), TfKind::Floats, true),
            ("float", Value::Float(0.5), TfKind::Floats, false),
            ("floats", Value::Floats(vec![-1.5, 2.0]), TfKind::Floats, true),
            ("ids", Value::Ints(vec![1, -1, i32::MAX]), TfKind::Ints, true),
            ("int", Value::Int(-1 << 40), TfKind::Ints, false),
            ("text", Value::Text("ä".to_string()), TfKind::Texts, false),
            ("texts", Value::Texts(vec![String::new(), "b".to_string()]), TfKind::Texts, true),
        ];
        let example: Example =
            all.iter().map(|(name, value, ..)| ((*name).into(), value.clone())).collect();
        let features = all.map(|(name, _, kind, is_list)| feature(name, kind, is_list));
        assert_eq!(decode(&features, &encode(&example)).unwrap(), example);
    }

    #[test]
    fn what_does_not_fit_is_named() {
        let ids = encode(&Example::of("a".into(), Value::Int(1 << 40)));
        let bad_text = TfExample {
            features: Some(Features {
                feature: BTreeMap::from([(
                    "a".to_string(),
                    Feature { kind: Some(Kind::Bytes(BytesList { value: vec![vec![0xff]] })) },
                )]),
            }),
        };
        for (bytes, feature, expected) in [
            (&ids, feature("a", TfKind::Ints, true), "'a' holds 1099511627776, which does not fit"),
            (&ids, feature("a", TfKind::Texts, true), "'a' holds ints, expected bytes"),
            (&ids, feature("b", TfKind::Ints, false), "'b' is missing"),
            (&bad_text.encode_to_vec(), feature("a", TfKind::Texts, false), "'a' is not UTF-8"),
            (&vec![0xff], feature("a", TfKind::Ints, true), "no tf.Example"),
        ] {
            let error = decode(&[feature], bytes).unwrap_err();
            assert!(error.starts_with(expected), "{error}");
        }
    }
}
