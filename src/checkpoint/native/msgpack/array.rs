//! Decodes arrays within the msgpack file: flax's extension, in one or several pieces.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use rmpv::{Value, ValueRef};

use super::EXT_ARRAY;
use super::bounded::read_value;
use super::error::DecodeError::{self, Unsupported};
use super::error::damaged;
use crate::array::{Array, DType, num_bytes};

/// Maximum number of value headers before the elements of an array: its shape and its type.
const MAX_ARRAY_HEADS: usize = 1000;

/// Header bytes of msgpack.
const LIST_OF_THREE: [u8; 1] = [0x93];
const BINARY: RangeInclusive<u8> = 0xc4..=0xc6;

/// Decodes the packed list `[shape, dtype, bytes]` of an extension.
pub(super) fn array(packed: &[u8]) -> Result<Array, DecodeError> {
    let parts = parts(packed);
    let (shape, name, data) =
        parts.ok_or_else(|| damaged("is not a packed array of shape, type and bytes"))?;
    let shape = sizes(&shape).ok_or_else(|| damaged("has a shape that is not of sizes"))?;
    // Files written by Python 2 and the earliest flax store the type's name as bytes.
    let name = match &name {
        Value::Binary(bytes) => std::str::from_utf8(bytes).unwrap_or_default(),
        other => other.as_str().unwrap_or_default(),
    };
    let dtype = DType::from_name(name).filter(|dtype| *dtype != DType::U16);
    let dtype = dtype.ok_or_else(|| unknown_type(name))?;
    if Some(data.len()) != num_bytes(&shape, dtype) {
        return Err(damaged(format!("has {} bytes, but is {name} {shape:?}", data.len())));
    }
    Ok(Array { dtype, shape, data: data.to_vec() })
}

fn parts(packed: &[u8]) -> Option<(Value, Value, &[u8])> {
    let mut rest = packed.strip_prefix(&LIST_OF_THREE)?;
    let shape = read_value(&mut rest, MAX_ARRAY_HEADS).ok()?;
    let name = read_value(&mut rest, MAX_ARRAY_HEADS).ok()?;
    // Other values are not decoded: a list could hold more values than fit in memory.
    if !BINARY.contains(rest.first()?) {
        return None;
    }
    match rmpv::decode::read_value_ref(&mut rest) {
        Ok(ValueRef::Binary(data)) => Some((shape, name, data)),
        _ => None,
    }
}

pub(super) fn unknown_type(name: &str) -> DecodeError {
    Unsupported(match name {
        "uint16" => "is uint16, which stood for bfloat16 before 2021: update it with T5X".into(),
        _ => format!(
            "has the type `{name}`, expected bool, an integer or a float of 16 bits or more"
        ),
    })
}

/// Joins an array that flax cut into pieces: `{shape: {"0": ..}, chunks: {"0": array, ..}}`.
pub(super) fn joined(entries: &[(Value, Value)]) -> Result<Array, DecodeError> {
    let numbered = |name: &str| {
        let map = entries.iter().find(|(key, _)| key.as_str() == Some(name))?.1.as_map()?;
        let by_key: BTreeMap<_, _> = map.iter().map(|(key, value)| (key.as_str(), value)).collect();
        (0..map.len())
            .map(|i| by_key.get(&Some(&i.to_string()[..])).copied())
            .collect::<Option<Vec<_>>>()
    };
    let sizes = numbered("shape").ok_or_else(|| damaged("is a cut array without a shape"))?;
    let shape: Option<Vec<usize>> = sizes.iter().map(|v| v.as_u64()?.try_into().ok()).collect();
    let shape = shape.ok_or_else(|| damaged("has a shape that is not of sizes"))?;
    let mut whole: Option<Array> = None;
    for piece in numbered("chunks").ok_or_else(|| damaged("is a cut array without pieces"))? {
        let Value::Ext(EXT_ARRAY, packed) = piece else {
            return Err(damaged("is a cut array with a piece that is not an array"));
        };
        let piece = array(packed)?;
        match &mut whole {
            None => whole = Some(piece),
            Some(whole) if whole.dtype != piece.dtype => {
                return Err(damaged(format!(
                    "is a cut array with pieces of {} and {}",
                    whole.dtype, piece.dtype
                )));
            }
            Some(whole) => whole.data.extend(piece.data),
        }
    }
    let whole = whole.ok_or_else(|| damaged("is a cut array without pieces"))?;
    if Some(whole.data.len()) != num_bytes(&shape, whole.dtype) {
        return Err(damaged(format!(
            "has {} bytes, but is {} {shape:?}",
            whole.data.len(),
            whole.dtype
        )));
    }
    Ok(Array { shape, ..whole })
}

/// A list of sizes.
pub(super) fn sizes(value: &Value) -> Option<Vec<usize>> {
    value.as_array()?.iter().map(|size| size.as_u64()?.try_into().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(dtype: &str, data: &[u8]) -> Value {
        let length = (data.len() / DType::from_name(dtype).unwrap().size()).into();
        let parts = vec![Value::Array(vec![length]), dtype.into(), Value::Binary(data.to_vec())];
        let mut packed = Vec::new();
        rmpv::encode::write_value(&mut packed, &Value::Array(parts)).unwrap();
        Value::Ext(EXT_ARRAY, packed)
    }

    #[test]
    fn pieces_of_different_types_make_no_array() {
        let joined = |last: Value| {
            let pieces = [("0".into(), piece("float32", &[0; 8])), ("1".into(), last)];
            let shape = vec![("0".into(), 3.into())];
            let entries = [("shape", shape), ("chunks", pieces.to_vec())];
            joined(&entries.map(|(key, map)| (key.into(), Value::Map(map))))
        };
        assert_eq!(joined(piece("float32", &[0; 4])).unwrap().shape, [3]);
        let DecodeError::Damaged(reason) = joined(piece("int32", &[0; 4])).unwrap_err() else {
            panic!("it is damaged");
        };
        assert_eq!(reason, "is a cut array with pieces of float32 and int32");
    }
}
