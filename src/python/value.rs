//! Values sent to Python and back: msgpack, with lists of numbers packed into extensions.

use rmpv::Value as Wire;
use serde_json::{Map, Value as Json};

use gimlet_gin::{Value, ValueKind};

/// A list of 32-bit integers, little-endian as all packed lists.
pub const INTS: i8 = 1;
/// A list of 64-bit integers.
pub const LONGS: i8 = 2;
/// A list of 64-bit floats.
pub const REALS: i8 = 3;
/// An empty list of texts; others are lists.
pub const TEXTS: i8 = 4;

/// Creates a map with these entries.
pub fn map<'a>(entries: impl IntoIterator<Item = (&'a str, Wire)>) -> Wire {
    Wire::Map(entries.into_iter().map(|(key, value)| (Wire::from(key), value)).collect())
}

/// Converts a gin literal; for other values, returns their kind.
pub(super) fn of_gin(value: &Value) -> Result<Wire, String> {
    let other = || Err(value.kind.type_name().to_string());
    Ok(match &value.kind {
        ValueKind::None => Wire::Nil,
        ValueKind::Bool(truth) => Wire::from(*truth),
        ValueKind::Int(number) => match i64::try_from(number) {
            Ok(number) => Wire::from(number),
            Err(_) => return Err("an int beyond 64 bits".to_string()),
        },
        ValueKind::Float(number) => Wire::from(*number),
        ValueKind::Str(text) => Wire::from(&text[..]),
        ValueKind::Bytes(bytes) => Wire::from(&bytes[..]),
        ValueKind::List(items) | ValueKind::Tuple(items) => {
            Wire::Array(items.iter().map(of_gin).collect::<Result<_, _>>()?)
        }
        ValueKind::Dict(entries) => {
            let entry = |(key, value): &(Value, Value)| Ok((of_gin(key)?, of_gin(value)?));
            Wire::Map(entries.iter().map(entry).collect::<Result<_, String>>()?)
        }
        _ => return other(),
    })
}

/// Converts a JSON value.
pub fn of_json(value: &Json) -> Wire {
    match value {
        Json::Null => Wire::Nil,
        Json::Bool(truth) => Wire::from(*truth),
        Json::Number(number) => match (number.as_i64(), number.as_u64()) {
            (Some(number), _) => Wire::from(number),
            (None, Some(number)) => Wire::from(number),
            (None, None) => Wire::from(number.as_f64().unwrap_or(f64::NAN)),
        },
        Json::String(text) => Wire::from(&text[..]),
        Json::Array(items) => Wire::Array(items.iter().map(of_json).collect()),
        Json::Object(entries) => map(entries.iter().map(|(key, value)| (&key[..], of_json(value)))),
    }
}

/// Converts the value to JSON, with packed lists as lists. JSON has `null` for NaN and infinite
/// numbers.
pub fn to_json(value: Wire) -> Json {
    match value {
        Wire::Nil => Json::Null,
        Wire::Boolean(truth) => Json::from(truth),
        Wire::Integer(number) => match (number.as_i64(), number.as_u64()) {
            (Some(number), _) => Json::from(number),
            (None, number) => Json::from(number),
        },
        Wire::F32(number) => Json::from(number),
        Wire::F64(number) => Json::from(number),
        Wire::String(text) => Json::from(text.into_str()),
        Wire::Binary(bytes) => Json::from(String::from_utf8_lossy(&bytes)),
        Wire::Array(items) => items.into_iter().map(to_json).collect(),
        Wire::Map(entries) => {
            let name = |key: Wire| key.as_str().map_or_else(|| key.to_string(), str::to_string);
            let entries = entries.into_iter().map(|(key, value)| (name(key), to_json(value)));
            Json::Object(entries.collect::<Map<_, _>>())
        }
        Wire::Ext(INTS, bytes) => numbers(&bytes, i32::from_le_bytes).map(Json::from).collect(),
        Wire::Ext(LONGS, bytes) => numbers(&bytes, i64::from_le_bytes).map(Json::from).collect(),
        Wire::Ext(REALS, bytes) => numbers(&bytes, f64::from_le_bytes).map(Json::from).collect(),
        Wire::Ext(..) => Json::Array(Vec::new()),
    }
}

/// Reads the numbers of a packed list.
pub fn numbers<const N: usize, T>(
    bytes: &[u8],
    read: impl Fn([u8; N]) -> T,
) -> impl Iterator<Item = T> {
    bytes.chunks_exact(N).map(move |chunk| read(chunk.try_into().expect("chunks are as long")))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn json_comes_back_as_it_was() {
        let value = json!({"a": [1, 2.5, "x", null, true], "b": {"c": u64::MAX, "d": -1}});
        assert_eq!(to_json(of_json(&value)), value);
    }

    #[test]
    fn packed_lists_are_lists() {
        let packed = |code, bytes: &[u8]| to_json(Wire::Ext(code, bytes.to_vec()));
        assert_eq!(packed(INTS, &[1, 0, 0, 0, 0xff, 0xff, 0xff, 0xff]), json!([1, -1]));
        assert_eq!(packed(REALS, &0.5f64.to_le_bytes()), json!([0.5]));
        assert_eq!(packed(TEXTS, &[]), json!([]));
    }
}
