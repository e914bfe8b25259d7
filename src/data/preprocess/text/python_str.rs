//! Values of templates as Python writes them: `True`, `None`, `['a', 1.0]`.

use minijinja::Value;
use minijinja::value::ValueKind;

use gimlet_gin::{repr_float, repr_str};

/// Python's `str`.
pub(super) fn python_str(value: &Value) -> String {
    match value.kind() {
        ValueKind::Undefined => String::new(),
        ValueKind::String => value.to_string(),
        _ => python_repr(value),
    }
}

/// Python's `repr`.
pub(super) fn python_repr(value: &Value) -> String {
    match value.kind() {
        ValueKind::Undefined => "Undefined".to_string(),
        ValueKind::None => "None".to_string(),
        ValueKind::Bool => if value.is_true() { "True" } else { "False" }.to_string(),
        ValueKind::String => repr_str(&value.to_string()),
        ValueKind::Number if !value.is_integer() => {
            f64::try_from(value.clone()).map_or_else(|_| value.to_string(), repr_float)
        }
        ValueKind::Map => bracketed("{", &pairs(value, python_repr), "}"),
        ValueKind::Seq | ValueKind::Iterable => {
            let items = items(value, python_repr);
            match (value.is_tuple(), items.len()) {
                (true, 1) => format!("({},)", items[0]),
                (true, _) => bracketed("(", &items, ")"),
                (false, _) => bracketed("[", &items, "]"),
            }
        }
        _ => value.to_string(),
    }
}

/// Python's `json.dumps` with sorted keys, escaped for HTML as in Jinja's `tojson`.
pub(super) fn python_json(value: &Value) -> String {
    match value.kind() {
        ValueKind::Undefined | ValueKind::None => "null".to_string(),
        ValueKind::Bool => value.is_true().to_string(),
        ValueKind::String => json_text(&value.to_string()),
        ValueKind::Map => {
            let mut pairs = pairs(value, python_json);
            pairs.sort();
            bracketed("{", &pairs, "}")
        }
        ValueKind::Seq | ValueKind::Iterable => bracketed("[", &items(value, python_json), "]"),
        _ => python_repr(value),
    }
}

fn items(value: &Value, write: fn(&Value) -> String) -> Vec<String> {
    value.try_iter().map(|items| items.map(|item| write(&item)).collect()).unwrap_or_default()
}

fn pairs(value: &Value, write: fn(&Value) -> String) -> Vec<String> {
    let pair = |key: Value| {
        let held = value.get_item(&key).unwrap_or_default();
        format!("{}: {}", write(&key), write(&held))
    };
    value.try_iter().map(|keys| keys.map(pair).collect()).unwrap_or_default()
}

fn bracketed(open: &str, items: &[String], close: &str) -> String {
    format!("{open}{}{close}", items.join(", "))
}

fn json_text(text: &str) -> String {
    let mut out = String::from('"');
    for unit in text.encode_utf16() {
        match u8::try_from(unit).map(char::from) {
            Ok('"') => out.push_str("\\\""),
            Ok('\\') => out.push_str("\\\\"),
            Ok('\n') => out.push_str("\\n"),
            Ok('\r') => out.push_str("\\r"),
            Ok('\t') => out.push_str("\\t"),
            Ok(c @ ' '..='~') if !"<>&'".contains(c) => out.push(c),
            _ => out.push_str(&format!("\\u{unit:04x}")),
        }
    }
    out.push('"');
    out
}
