//! Values of templates as Python writes them: `True`, `None`, `['a', 1.0]`, and as JSON.

use minijinja::Value;
use minijinja::value::ValueKind;

use gimlet_gin::{Json, repr_float, repr_str};

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
        ValueKind::Map => bracketed("{", &pairs(value), "}"),
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
    let mut json = json(value).dumps();
    for (letter, escaped) in
        [('<', "\\u003c"), ('>', "\\u003e"), ('&', "\\u0026"), ('\'', "\\u0027")]
    {
        json = json.replace(letter, escaped);
    }
    json
}

fn json(value: &Value) -> Json {
    match value.kind() {
        ValueKind::Undefined | ValueKind::None => Json::Null,
        ValueKind::Bool => Json::Bool(value.is_true()),
        ValueKind::Map => {
            let keys = value.try_iter().into_iter().flatten();
            let mut entries: Vec<(String, Json)> = keys
                .map(|key| (key_of(&key), json(&value.get_item(&key).unwrap_or_default())))
                .collect();
            entries.sort_by(|(a, _), (b, _)| a.cmp(b));
            Json::Object(entries)
        }
        ValueKind::Seq | ValueKind::Iterable => Json::List(items(value, json)),
        ValueKind::Number => number(value),
        _ => Json::Text(value.to_string()),
    }
}

fn number(value: &Value) -> Json {
    match i128::try_from(value.clone()) {
        Ok(number) if value.is_integer() => Json::Int(number),
        _ => Json::Float(f64::try_from(value.clone()).unwrap_or(f64::NAN)),
    }
}

/// Python writes keys that are no text as the text of their JSON.
fn key_of(key: &Value) -> String {
    match json(key) {
        Json::Text(text) => text,
        other => other.dumps(),
    }
}

fn items<T>(value: &Value, convert: fn(&Value) -> T) -> Vec<T> {
    value.try_iter().map(|items| items.map(|item| convert(&item)).collect()).unwrap_or_default()
}

fn pairs(value: &Value) -> Vec<String> {
    let pair = |key: Value| {
        let held = value.get_item(&key).unwrap_or_default();
        format!("{}: {}", python_repr(&key), python_repr(&held))
    };
    value.try_iter().map(|keys| keys.map(pair).collect()).unwrap_or_default()
}

fn bracketed(open: &str, items: &[String], close: &str) -> String {
    format!("{open}{}{close}", items.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Python 3.11 with Jinja printed the expected texts.
    #[test]
    fn json_has_sorted_keys_and_is_escaped_for_html() {
        let check = |expression: &str, expected: &str| {
            let environment = minijinja::Environment::new();
            let compiled = environment.compile_expression(expression).expect("it is Jinja's");
            let value = compiled.eval(()).expect("it has a value");
            assert_eq!(python_json(&value), expected);
        };
        check("{'b': [1, 2.0, none], 'a b': true}", r#"{"a b": true, "b": [1, 2.0, null]}"#);
        check("{3: 'x'}", r#"{"3": "x"}"#);
        check("\"<b>'é'&\"", r#""\u003cb\u003e\u0027\u00e9\u0027\u0026""#);
    }
}
