//! Values as JSON. A value without a JSON form becomes an object with one key that starts with `$`.
//!
//! ```text
//! (1, 2.0)   {"$tuple":[1,2.0]}        {1: 2}        {"$dict":[[1,2]]}
//! @s/f()     {"$ref":"s/f","call":true}   %NAME      {"$macro":"NAME"}
//! b'\xff'    {"$bytes":"ff"}           3j          {"$complex":[0.0,3.0]}
//! 2 ** 64    {"$int":"18446744073709551616"}   1e999   {"$float":"inf"}
//! %(A * 2)   {"$computed":"%(A * 2)"}
//! ```

use std::fmt::Write;

use serde_json::{Value as Json, json};

use super::value::{Value, ValueKind};

/// The value as JSON; floats always have a point or an exponent.
pub fn to_json(value: &Value) -> Json {
    match &value.kind {
        ValueKind::None => Json::Null,
        ValueKind::Bool(value) => json!(value),
        ValueKind::Int(value) => match i64::try_from(value) {
            Ok(value) => json!(value),
            Err(_) => json!({"$int": value.to_string()}),
        },
        ValueKind::Float(value) => float(*value),
        ValueKind::Complex(re, im) => json!({"$complex": [float(*re), float(*im)]}),
        ValueKind::Str(text) => json!(text),
        ValueKind::Bytes(bytes) => json!({"$bytes": hexadecimal(bytes)}),
        ValueKind::List(items) => list(items),
        ValueKind::Tuple(items) => json!({"$tuple": list(items)}),
        ValueKind::Dict(entries) => {
            let entry = |(key, value): &(Value, Value)| json!([to_json(key), to_json(value)]);
            json!({"$dict": entries.iter().map(entry).collect::<Vec<_>>()})
        }
        ValueKind::Reference(reference) => {
            let path = [&reference.scope[..], std::slice::from_ref(&reference.selector)].concat();
            json!({"$ref": path.join("/"), "call": reference.called})
        }
        ValueKind::Macro(used) => json!({"$macro": used.path()}),
        ValueKind::Computed(expression) => json!({"$computed": expression.to_string()}),
    }
}

/// Reads a value that [`to_json`] wrote.
///
/// # Errors
/// JSON of another form, in words.
pub fn from_json(json: &Json) -> Result<ValueKind, String> {
    Ok(match json {
        Json::Null => ValueKind::None,
        Json::Bool(value) => ValueKind::Bool(*value),
        Json::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(value), _) => ValueKind::from(value),
            (None, Some(value)) => ValueKind::Float(value),
            (None, None) => return Err(format!("{number} is not a 64-bit number")),
        },
        Json::String(text) => ValueKind::Str(text.clone()),
        Json::Array(items) => ValueKind::List(values(items)?),
        Json::Object(object) => match object.iter().next() {
            Some((key, value)) if object.len() == 1 => special(key, value)?,
            _ => {
                return Err(format!(
                    "expected an object with one key such as `$dict`, found {json}"
                ));
            }
        },
    })
}

/// Returns the value that an object with this one key represents.
fn special(key: &str, json: &Json) -> Result<ValueKind, String> {
    let wrong = || format!("{json} cannot be the value of `{key}`");
    let text = || json.as_str().ok_or_else(wrong);
    let items = || json.as_array().ok_or_else(wrong);
    Ok(match key {
        "$int" => ValueKind::Int(text()?.parse().map_err(|_| wrong())?),
        "$float" => ValueKind::Float(text()?.parse().map_err(|_| wrong())?),
        "$complex" => match &items()?[..] {
            [re, im] => {
                let part = |json: &Json| json.as_f64().ok_or_else(wrong);
                ValueKind::Complex(part(re)?, part(im)?)
            }
            _ => return Err(wrong()),
        },
        "$bytes" => ValueKind::Bytes(bytes(text()?).ok_or_else(wrong)?),
        "$tuple" => ValueKind::Tuple(values(items()?)?),
        "$dict" => {
            let entry = |entry: &Json| match values(entry.as_array().ok_or_else(wrong)?)?.as_slice()
            {
                [key, value] => Ok((key.clone(), value.clone())),
                _ => Err(wrong()),
            };
            ValueKind::Dict(items()?.iter().map(entry).collect::<Result<_, _>>()?)
        }
        _ => return Err(format!("`{key}` marks no value")),
    })
}

fn values(items: &[Json]) -> Result<Vec<Value>, String> {
    items.iter().map(|item| Ok(Value::unplaced(from_json(item)?))).collect()
}

fn bytes(text: &str) -> Option<Vec<u8>> {
    let digits = |at| u8::from_str_radix(text.get(at..at + 2)?, 16).ok();
    (0..text.len()).step_by(2).map(digits).collect()
}

fn list(items: &[Value]) -> Json {
    Json::Array(items.iter().map(to_json).collect())
}

fn float(value: f64) -> Json {
    match value.is_finite() {
        true => json!(value),
        false if value.is_nan() => json!({"$float": "nan"}),
        false => json!({"$float": if value > 0.0 { "inf" } else { "-inf" }}),
    }
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut out, byte| {
        write!(out, "{byte:02x}").expect("a string takes all");
        out
    })
}
