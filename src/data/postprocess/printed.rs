//! Postprocessed values as Python prints them. t5 writes its targets and predictions into files like this.

use gimlet_gin::{Value, ValueKind};
use serde_json::Value as Json;

use super::Postprocessor;

/// Returns Python's `str` of a value that the postprocessor made, or that is the text itself if there is none.
pub fn printed(postprocessor: Option<&Postprocessor>, value: &Json, is_target: bool) -> String {
    let value = match postprocessor.filter(|_| is_target) {
        Some(postprocessor) => postprocessor.spec().target_in_python(value),
        None => in_python(value),
    };
    match value {
        ValueKind::Str(text) => text,
        other => other.to_string(),
    }
}

/// Converts a value that has the same form in Python.
pub(super) fn in_python(value: &Json) -> ValueKind {
    let unplaced = |value: &Json| Value::unplaced(in_python(value));
    match value {
        Json::Null => ValueKind::None,
        Json::Bool(value) => ValueKind::Bool(*value),
        Json::Number(number) => match number.as_i64() {
            Some(number) => ValueKind::from(number),
            None => ValueKind::Float(number.as_f64().unwrap_or(f64::NAN)),
        },
        Json::String(text) => ValueKind::Str(text.clone()),
        Json::Array(items) => ValueKind::List(items.iter().map(unplaced).collect()),
        Json::Object(entries) => {
            let entry = |(key, value): (&String, &Json)| {
                (Value::unplaced(ValueKind::Str(key.clone())), unplaced(value))
            };
            ValueKind::Dict(entries.iter().map(entry).collect())
        }
    }
}

/// Converts a list that is a tuple in Python, as are the lists in it.
pub(super) fn tuple_in_python(value: &Json) -> ValueKind {
    match value {
        Json::Array(items) => {
            ValueKind::Tuple(items.iter().map(|it| Value::unplaced(tuple_in_python(it))).collect())
        }
        other => in_python(other),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::{RankClassificationTargets, Record};
    use super::*;

    #[test]
    fn targets_are_printed_as_python_has_them() {
        let check = |postprocessor: Option<Postprocessor>, target: Json, expected: &str| {
            assert_eq!(printed(postprocessor.as_ref(), &target, true), expected);
        };
        check(None, json!("it's"), "it's");
        check(None, json!(["it's", 1, 0.5, null, true]), r#"["it's", 1, 0.5, None, True]"#);
        let ranked = RankClassificationTargets { passthrough_feature_keys: None };
        let ranked = Postprocessor::RankClassificationTargets(ranked);
        check(Some(ranked), json!([[3, 1], 0, 1.0, 7]), "((3, 1), False, 1.0, 7)");
        let record = json!({"value": ["a", "b"], "group": [4, 0]});
        let expected = "{'value': ['a', 'b'], 'group': (4, 0)}";
        check(Some(Postprocessor::Record(Record {})), record, expected);
    }
}
