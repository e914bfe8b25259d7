//! Examples on their way to the user's Python and back.

use rmpv::Value as Wire;

use super::example::Example;
use super::value::{Key, Value};
use gimlet_python::{INTS, LONGS, REALS, TEXTS, map, numbers};

/// An example as a map.
pub(super) fn to_python(example: &Example) -> Wire {
    map(example.iter().map(|(key, value)| (&**key, sent(value))))
}

fn sent(value: &Value) -> Wire {
    match value {
        Value::Int(number) => Wire::from(*number),
        Value::Float(number) => Wire::from(*number),
        Value::Text(text) => Wire::from(&text[..]),
        Value::Ints(ids) => Wire::Ext(INTS, ids.iter().flat_map(|id| id.to_le_bytes()).collect()),
        Value::Longs(longs) => {
            Wire::Ext(LONGS, longs.iter().flat_map(|long| long.to_le_bytes()).collect())
        }
        Value::Floats(floats) => reals(floats),
        Value::Texts(texts) if texts.is_empty() => Wire::Ext(TEXTS, Vec::new()),
        Value::Texts(texts) => texts.iter().map(|text| Wire::from(&text[..])).collect(),
        Value::IntRows(rows) => rows.iter().map(|row| sent(&Value::Ints(row.clone()))).collect(),
        Value::FloatRows(rows) => rows.iter().map(|row| reals(row)).collect(),
        Value::Lists(lists) => lists.iter().map(sent).collect(),
    }
}

fn reals(floats: &[f64]) -> Wire {
    Wire::Ext(REALS, floats.iter().flat_map(|float| float.to_le_bytes()).collect())
}

/// Converts a map to an example. An empty list gets the type of the feature of the same name in
/// `like`, the example that the function received.
pub(super) fn of_python(record: Wire, like: Option<&Example>) -> Result<Example, String> {
    let Wire::Map(entries) = record else {
        return Err(format!("expected a dict for each record, found {record}"));
    };
    let mut example = Example::default();
    for (key, wire) in entries {
        let name = key.as_str().unwrap_or_default();
        let given = like.and_then(|example| example.get(name));
        let value = match (&wire, given) {
            (Wire::Array(items), Some(given)) if items.is_empty() => emptied(given),
            _ => None,
        };
        let value = match value {
            Some(value) => value,
            None => received(wire).map_err(|found| {
                format!("feature '{name}' is {found}; expected numbers, texts or lists of them")
            })?,
        };
        example.set(Key::from(name), value);
    }
    Ok(example)
}

/// An empty list of the same type.
fn emptied(value: &Value) -> Option<Value> {
    value.len()?;
    let mut value = value.clone();
    value.truncate(0);
    Some(value)
}

/// The value of a feature, or a description of an unsupported value.
fn received(wire: Wire) -> Result<Value, String> {
    Ok(match wire {
        Wire::Boolean(truth) => Value::Int(i64::from(truth)),
        Wire::Integer(number) => match number.as_i64() {
            Some(number) => Value::Int(number),
            None => return Err(format!("{number}, beyond 64 bits with a sign")),
        },
        Wire::F32(number) => Value::Float(number.into()),
        Wire::F64(number) => Value::Float(number),
        Wire::String(text) => Value::Text(text.into_str().ok_or("not UTF-8")?),
        Wire::Ext(INTS, bytes) => Value::Ints(numbers(&bytes, i32::from_le_bytes).collect()),
        Wire::Ext(LONGS, bytes) => Value::of_longs(numbers(&bytes, i64::from_le_bytes).collect()),
        Wire::Ext(REALS, bytes) => Value::Floats(numbers(&bytes, f64::from_le_bytes).collect()),
        Wire::Ext(..) => Value::Texts(Vec::new()),
        Wire::Array(items) => {
            return listed(items.into_iter().map(received).collect::<Result<_, _>>()?);
        }
        Wire::Nil => return Err("None".to_string()),
        other => return Err(other.to_string()),
    })
}

/// Converts values to one list.
fn listed(items: Vec<Value>) -> Result<Value, String> {
    let is_whole = |item: &Value| matches!(item, Value::Int(_));
    let is_number = |item: &Value| matches!(item, Value::Int(_) | Value::Float(_));
    if items.iter().all(is_whole) {
        let long = |item| if let Value::Int(long) = item { Some(long) } else { None };
        return Ok(Value::of_longs(items.into_iter().filter_map(long).collect()));
    }
    if items.iter().all(is_number) {
        let float = |item| match item {
            Value::Float(float) => float,
            Value::Int(long) => long as f64,
            _ => unreachable!("all are numbers"),
        };
        return Ok(Value::Floats(items.into_iter().map(float).collect()));
    }
    if items.iter().all(|item| matches!(item, Value::Text(_))) {
        let text = |item| if let Value::Text(text) = item { Some(text) } else { None };
        return Ok(Value::Texts(items.into_iter().filter_map(text).collect()));
    }
    let kinds: Vec<&str> = items.iter().map(Value::type_name).collect();
    let kinds = kinds.join(", ");
    Value::of_rows(items).ok_or_else(|| format!("a list of {kinds}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn features_come_back_with_their_types() {
        let example = Example::from_iter([
            ("text".into(), Value::Text("é".to_string())),
            ("int".into(), Value::Int(-3)),
            ("float".into(), Value::Float(0.1)),
            ("ids".into(), Value::Ints(vec![1, -2])),
            ("no_ids".into(), Value::Ints(Vec::new())),
            ("longs".into(), Value::Longs(vec![1 << 40])),
            ("floats".into(), Value::Floats(vec![0.5, f64::INFINITY])),
            ("texts".into(), Value::Texts(vec!["a".to_string()])),
            ("no_texts".into(), Value::Texts(Vec::new())),
            ("rows".into(), Value::IntRows(vec![vec![1], vec![]])),
            ("reals".into(), Value::FloatRows(vec![vec![1.0], vec![0.5]])),
        ]);
        assert_eq!(of_python(to_python(&example), None), Ok(example));
    }

    #[test]
    fn an_untyped_empty_list_has_the_type_that_was_given() {
        let given = Example::of("a".into(), Value::Texts(vec!["x".to_string()]));
        let empty = || map([("a", Wire::Array(Vec::new()))]);
        let made = of_python(empty(), Some(&given)).unwrap();
        assert_eq!(made.get("a"), Some(&Value::Texts(Vec::new())));
        assert_eq!(of_python(empty(), None).unwrap().get("a"), Some(&Value::Ints(Vec::new())));
    }

    #[test]
    fn what_no_feature_can_hold_is_named() {
        let error = of_python(map([("a", Wire::Nil)]), None).unwrap_err();
        assert_eq!(error, "feature 'a' is None; expected numbers, texts or lists of them");
        let mixed = Wire::Array(vec![Wire::from("x"), Wire::from(1)]);
        let error = of_python(map([("a", mixed)]), None).unwrap_err();
        assert!(error.starts_with("feature 'a' is a list of text, an int;"), "{error}");
    }
}
