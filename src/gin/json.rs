//! Values as JSON. What JSON lacks is an object with one key that starts with `$`.
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
