//! JSON objects as examples.

use serde_json::{Map, Value as Json};

use super::keeps;
use crate::data::example::{Example, Value};

/// The example that an object is, or what is wrong with it.
pub(super) fn parse(text: &str, columns: Option<&[String]>) -> Result<Example, String> {
    let json: Json = serde_json::from_str(text)
        .map_err(|error| format!("malformed JSON at column {}", error.column()))?;
    let Json::Object(object) = json else {
        return Err("not a JSON object".to_string());
    };
    let mut example = Example::default();
    flatten("", object, columns, &mut example)?;
    Ok(example)
}

fn flatten(
    prefix: &str,
    object: Map<String, Json>,
    columns: Option<&[String]>,
    example: &mut Example,
) -> Result<(), String> {
    for (name, value) in object {
        let name = format!("{prefix}{name}");
        match value {
            Json::Object(inner) => flatten(&format!("{name}/"), inner, columns, example)?,
            Json::Array(items) if !items.is_empty() && items.iter().all(Json::is_object) => {
                flatten(&format!("{name}/"), transposed(items), columns, example)?;
            }
            value if keeps(columns, &name) => {
                if let Some(value) = feature(value) {
                    example.set(name.into(), value);
                }
            }
            _ => {}
        }
    }
    Ok(())
}

/// Lists of the values of each key that all objects have.
fn transposed(items: Vec<Json>) -> Map<String, Json> {
    let count = items.len();
    let mut lists: Map<String, Json> = Map::new();
    for item in items {
        let Json::Object(object) = item else { continue };
        for (key, value) in object {
            let list = lists.entry(key).or_insert_with(|| Json::Array(Vec::new()));
            if let Json::Array(list) = list {
                list.push(value);
            }
        }
    }
    lists.retain(|_, list| list.as_array().is_some_and(|list| list.len() == count));
    lists
}

/// The feature that a list of lists of numbers is; `None` for lists of other lists.
fn rows_of(rows: Vec<Json>) -> Option<Value> {
    let rows: Vec<Value> = rows.into_iter().map(feature).collect::<Option<_>>()?;
    Value::of_rows(rows)
}

/// The feature that a JSON value is; `None` for null and for lists of mixed or deeper nested things.
fn feature(value: Json) -> Option<Value> {
    match value {
        Json::String(text) => Some(Value::Text(text)),
        Json::Bool(truth) => Some(Value::Int(i64::from(truth))),
        Json::Number(number) => match number.as_i64() {
            Some(number) => Some(Value::Int(number)),
            None => number.as_f64().map(Value::Float),
        },
        Json::Array(items) if items.iter().all(Json::is_i64) => {
            Some(Value::of_longs(items.iter().filter_map(Json::as_i64).collect()))
        }
        Json::Array(rows) if rows.iter().all(Json::is_array) => rows_of(rows),
        Json::Array(items) if items.iter().all(Json::is_boolean) => {
            let truth = |item: &Json| item.as_bool().map(i32::from);
            Some(Value::Ints(items.iter().filter_map(truth).collect()))
        }
        Json::Array(items) if items.iter().all(Json::is_number) => {
            Some(Value::Floats(items.iter().filter_map(Json::as_f64).collect()))
        }
        Json::Array(items) if items.iter().all(Json::is_string) => {
            let text = |item| match item {
                Json::String(text) => Some(text),
                _ => None,
            };
            Some(Value::Texts(items.into_iter().filter_map(text).collect()))
        }
        Json::Null | Json::Array(_) | Json::Object(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_values_become_features() {
        let line = r#"{"t": "x", "n": 3, "f": 0.5, "ids": [1, 2], "no": null, "a": {"b": ["y"]},
            "long": [3000000000], "truths": [true, false], "rows": [[1], [], [2, 3]],
            "reals": [[1], [0.5]], "mixed": [["x"], [1]]}"#;
        let example = parse(line, None).unwrap();
        assert_eq!(
            example.names(),
            "'t', 'n', 'f', 'ids', 'a/b', 'long', 'truths', 'rows', 'reals'"
        );
        assert_eq!(example.ints("ids"), Some(&[1, 2][..]));
        assert_eq!(example.get("a/b"), Some(&Value::Texts(vec!["y".to_string()])));
        let rows = Value::IntRows(vec![vec![1], vec![], vec![2, 3]]);
        assert_eq!(example.get("rows"), Some(&rows));
        let reals = Value::FloatRows(vec![vec![1.0], vec![0.5]]);
        assert_eq!(example.get("reals"), Some(&reals));
        assert_eq!(example.get("long"), Some(&Value::Longs(vec![3_000_000_000])));
    }

    #[test]
    fn lists_of_objects_become_lists() {
        let line = r#"{"answers": [{"text": "x", "start": 1}, {"text": "y", "start": 2, "z": 0}]}"#;
        let example = parse(line, Some(&["answers".to_string()])).unwrap();
        assert_eq!(example.names(), "'answers/text', 'answers/start'");
        assert_eq!(example.ints("answers/start"), Some(&[1, 2][..]));
        let texts = parse(line, Some(&["answers/text".to_string()])).unwrap();
        assert_eq!(texts.names(), "'answers/text'");
    }
}
