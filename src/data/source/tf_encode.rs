//! Conversion of examples to serialized `tf.Example`s. Source: TensorFlow
//! `core/example/feature.proto`.

use prost::Message;

use crate::example::Example;
use crate::value::Value;

/// `tensorflow.Example`.
#[derive(Clone, PartialEq, Message)]
struct TfExample {
    #[prost(message, optional, tag = "1")]
    features: Option<Features>,
}

#[derive(Clone, PartialEq, Message)]
struct Features {
    #[prost(message, repeated, tag = "1")]
    feature: Vec<FeatureEntry>,
}

/// An entry of the map, which is a message in the wire format. prost's map type would lose values
/// that are empty messages, and TensorFlow cannot read an entry without a value.
#[derive(Clone, PartialEq, Message)]
struct FeatureEntry {
    #[prost(string, tag = "1")]
    key: String,
    #[prost(message, optional, tag = "2")]
    value: Option<Feature>,
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

/// The feature that holds the lengths of a feature's rows. Source: SeqIO `utils.py`,
/// `tfexample_ragged_length_key`.
pub(crate) fn ragged_lengths(key: &str, depth: usize) -> String {
    format!("_rl:{depth}:{key}")
}

/// The serialized proto of an example, its features sorted by name. Rows are stored one after
/// another, and their lengths in separate features, which readers need only if the lengths are not
/// fixed.
pub(crate) fn encode(example: &Example) -> Vec<u8> {
    let mut feature: Vec<FeatureEntry> = example
        .iter()
        .map(|(key, value)| FeatureEntry {
            key: key.to_string(),
            value: Some(Feature { kind: kind_of(value) }),
        })
        .collect();
    for (key, value) in example.iter() {
        for (depth, lengths) in value.row_lengths().into_iter().enumerate() {
            let value = lengths.into_iter().map(|length| length as i64).collect();
            let kind = Some(Kind::Ints(Int64List { value }));
            let key = ragged_lengths(key, depth);
            feature.push(FeatureEntry { key, value: Some(Feature { kind }) });
        }
    }
    feature.sort_by(|one, other| one.key.cmp(&other.key));
    TfExample { features: Some(Features { feature }) }.encode_to_vec()
}

/// Lists without values have no type, so they fit every type.
fn kind_of(value: &Value) -> Option<Kind> {
    let ints = |value: Vec<i64>| Kind::Ints(Int64List { value });
    let floats = |value: Vec<f32>| Kind::Floats(FloatList { value });
    let bytes = |value: Vec<Vec<u8>>| Kind::Bytes(BytesList { value });
    let kind = match value {
        Value::Ints(ids) => ints(ids.iter().map(|&id| id.into()).collect()),
        Value::Longs(numbers) => ints(numbers.clone()),
        Value::Floats(numbers) => floats(numbers.iter().map(|&number| number as f32).collect()),
        Value::Texts(texts) => bytes(texts.iter().map(|text| text.clone().into()).collect()),
        rows @ (Value::IntRows(_) | Value::FloatRows(_) | Value::Lists(_)) => {
            return kind_of(&rows.flat());
        }
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
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_lists_are_written_as_tensorflow_does() {
        let mut example = Example::of("inputs".into(), Value::Ints(Vec::new()));
        example.set("z".into(), Value::Text("abc".into()));
        // `tf.train.Example.SerializeToString()` of a feature without a kind and of one of bytes.
        let expected = b"\n\x1a\n\n\n\x06inputs\x12\x00\n\x0c\n\x01z\x12\x07\n\x05\n\x03abc";
        assert_eq!(encode(&example), expected);
    }
}
