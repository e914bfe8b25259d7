//! Conversion of JSON objects to examples.

use serde_json::{Error, Map, Number, Value as Json};

use super::keeps;
use crate::example::Example;
use crate::value::Value;

/// Converts a JSON object to an example, or describes the mistake in it.
pub(super) fn parse(text: &str, columns: Option<&[String]>) -> Result<Example, String> {
    let json: Json = serde_json::from_str(text).map_err(|error| malformed(text, &error))?;
    let Json::Object(object) = json else {
        return Err("not a JSON object".to_string());
    };
    let mut example = Example::default();
    let record = Record { text, columns };
    record.flatten("", object, &mut example)?;
    Ok(example)
}

/// A record in JSON.
struct Record<'a> {
    text: &'a str,
    /// Features to keep; all if None.
    columns: Option<&'a [String]>,
}

impl Record<'_> {
    fn flatten(
        &self,
        prefix: &str,
        object: Map<String, Json>,
        example: &mut Example,
    ) -> Result<(), String> {
        for (name, value) in object {
            let name = format!("{prefix}{name}");
            match value {
                Json::Object(inner) => self.flatten(&format!("{name}/"), inner, example)?,
                Json::Array(items) if !items.is_empty() && items.iter().all(Json::is_object) => {
                    self.flatten(&format!("{name}/"), self.transposed(&name, items)?, example)?;
                }
                // Null counts as a missing key.
                Json::Null => {}
                value if keeps(self.columns, &name) => {
                    let value = self.feature(value).map_err(|why| {
                        format!("'{name}' {why}; `columns` names the features to keep")
                    })?;
                    example.set(name.into(), value);
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Lists of the values of each key; all objects must have the same keys.
    fn transposed(&self, name: &str, items: Vec<Json>) -> Result<Map<String, Json>, String> {
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
        for (key, list) in &lists {
            let found = list.as_array().map_or(0, Vec::len);
            if found < count && keeps(self.columns, &format!("{name}/{key}")) {
                return Err(format!(
                    "'{name}' is a list of {count} objects, of which {found} have '{key}', expected all; \
                     `columns` names the features to keep"
                ));
            }
        }
        lists.retain(|_, list| list.as_array().is_some_and(|list| list.len() == count));
        Ok(lists)
    }

    /// Converts a JSON value to a feature's value, or describes why that is not possible.
    fn feature(&self, value: Json) -> Result<Value, String> {
        match value {
            Json::String(text) => Ok(Value::Text(text)),
            Json::Bool(truth) => Ok(Value::Int(i64::from(truth))),
            Json::Number(number) => match number.as_i64() {
                Some(number) => Ok(Value::Int(number)),
                None => self.float(&number).map(Value::Float),
            },
            Json::Array(items) => self.list(items),
            Json::Null => Err("holds null".to_string()),
            Json::Object(_) => Err("holds an object".to_string()),
        }
    }

    /// A list of one type. An empty list has no type: it fits every feature.
    fn list(&self, items: Vec<Json>) -> Result<Value, String> {
        if items.iter().all(Json::is_i64) {
            return Ok(Value::of_longs(items.iter().filter_map(Json::as_i64).collect()));
        }
        if items.iter().all(Json::is_boolean) {
            let truth = |item: &Json| item.as_bool().map(i32::from);
            return Ok(Value::Ints(items.iter().filter_map(truth).collect()));
        }
        if items.iter().all(Json::is_number) {
            let number = |item: &Json| match item {
                Json::Number(number) => self.float(number),
                _ => unreachable!("all are numbers"),
            };
            return Ok(Value::Floats(items.iter().map(number).collect::<Result<_, _>>()?));
        }
        if items.iter().all(Json::is_array) {
            let rows: Vec<Value> =
                items.into_iter().map(|row| self.feature(row)).collect::<Result<_, _>>()?;
            return Value::of_rows(rows)
                .ok_or_else(|| "is a list of lists of several types, expected one".to_string());
        }
        let first = items.first().map_or("nothing", kind_of);
        match items.iter().position(|item| kind_of(item) != first) {
            Some(index) => Err(format!(
                "is a list of {first} with {} at place {}, expected items of one type",
                kind_of(&items[index]),
                index + 1
            )),
            None if first == "texts" => {
                let text = |item| match item {
                    Json::String(text) => text,
                    _ => unreachable!("all are texts"),
                };
                Ok(Value::Texts(items.into_iter().map(text).collect()))
            }
            None => Err(format!("is a list of {first}, expected texts or numbers")),
        }
    }

    /// A number that is not an integer; an integer with more than 64 bits is an error, since it
    /// would lose digits.
    fn float(&self, number: &Number) -> Result<f64, String> {
        const BITS: f64 = 9.0e18;
        let float = number.as_f64().ok_or_else(|| format!("holds {number}, expected a number"))?;
        match float.abs() >= BITS {
            true => match long_integer(self.text) {
                Some(digits) => Err(format!(
                    "holds the whole number {digits}, which does not fit in 64 bits; write it as a text"
                )),
                None => Ok(float),
            },
            false => Ok(float),
        }
    }
}

/// The type of a list's item, in the plural.
fn kind_of(item: &Json) -> &'static str {
    match item {
        Json::Null => "null",
        Json::Bool(_) => "truth values",
        Json::Number(_) => "numbers",
        Json::String(_) => "texts",
        Json::Array(_) => "lists",
        Json::Object(_) => "objects",
    }
}

/// Finds an integer outside of texts that does not fit in 64 bits.
fn long_integer(text: &str) -> Option<&str> {
    let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'+' | b'.');
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        let length = match bytes[at] {
            b'"' => text_length(&bytes[at..]),
            _ => bytes[at..].iter().take_while(|byte| is_part(byte)).count(),
        };
        let word = text.get(at..at + length).unwrap_or_default();
        let digits = word.strip_prefix('-').unwrap_or(word);
        let is_whole = digits.len() > 18 && digits.bytes().all(|byte| byte.is_ascii_digit());
        if is_whole && word.parse::<i64>().is_err() {
            return Some(word);
        }
        at += length.max(1);
    }
    None
}

/// Counts the bytes of a text in quotes, from its first quote to its last.
fn text_length(bytes: &[u8]) -> usize {
    let mut length = 1;
    while length < bytes.len() && bytes[length] != b'"' {
        length += if bytes[length] == b'\\' { 2 } else { 1 };
    }
    length + 1
}

/// Explains why a text is not JSON, with a remedy.
fn malformed(text: &str, error: &Error) -> String {
    let column = error.column();
    let word = word_at(text, column);
    let why = match word {
        _ if text.starts_with('\u{feff}') => {
            "the file begins with a byte order mark, which JSON does not allow: save it as UTF-8 without \
             one"
                .to_string()
        }
        "NaN" | "Infinity" | "-Infinity" | "inf" | "-inf" | "nan" => {
            format!("JSON has no number `{word}`: write null, or omit the key")
        }
        "None" | "True" | "False" => format!(
            "`{word}` is Python's spelling: write null, true or false, as `json.dumps` does"
        ),
        _ if quote_at(text, column) => {
            "JSON takes double quotes only: write the objects with a JSON library, as `json.dumps` does"
                .to_string()
        }
        _ if error.is_eof() => {
            "the object continues after the end of its line: write each on one line, for example with \
             `jq -c`"
                .to_string()
        }
        _ => reason_of(error),
    };
    format!("malformed JSON at column {column}: {why}")
}

/// The letters and signs around a column, counted from 1 in bytes; the parser's column may be off
/// by one.
fn word_at(text: &str, column: usize) -> &str {
    let is_part = |byte: &u8| byte.is_ascii_alphabetic() || *byte == b'-';
    let bytes = text.as_bytes();
    let within = [column, column.wrapping_sub(1), column.wrapping_sub(2)]
        .into_iter()
        .find(|index| bytes.get(*index).is_some_and(is_part));
    let Some(within) = within else { return "" };
    let start = bytes[..within].iter().rposition(|byte| !is_part(byte)).map_or(0, |at| at + 1);
    let length = bytes[start..].iter().take_while(|byte| is_part(byte)).count();
    &text[start..start + length]
}

/// Whether there is a single quote at the column.
fn quote_at(text: &str, column: usize) -> bool {
    let bytes = text.as_bytes();
    [column.wrapping_sub(1), column].iter().any(|index| bytes.get(*index) == Some(&b'\''))
}

/// The parser's reason without its place, since the parser counts lines.
fn reason_of(error: &Error) -> String {
    let text = error.to_string();
    let reason = text.split(" at line ").next().unwrap_or_default();
    match reason {
        "trailing comma" => "a comma stands before the closing bracket: remove it".to_string(),
        "trailing characters" => {
            "more text follows the object: write each object on a line of its own".to_string()
        }
        reason => reason.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_values_become_features() {
        let line = r#"{"t": "x", "n": 3, "f": 0.5, "ids": [1, 2], "no": null, "a": {"b": ["y"]},
            "long": [3000000000], "truths": [true, false], "rows": [[1], [], [2, 3]],
            "reals": [[1], [0.5]], "big": 1e30, "none": []}"#;
        let example = parse(line, None).unwrap();
        assert_eq!(
            example.names(),
            "'t', 'n', 'f', 'ids', 'a/b', 'long', 'truths', 'rows', 'reals', 'big', 'none'"
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
        let line = r#"{"answers": [{"text": "x", "start": 1}, {"text": "y", "start": 2}]}"#;
        let example = parse(line, Some(&["answers".to_string()])).unwrap();
        assert_eq!(example.names(), "'answers/text', 'answers/start'");
        assert_eq!(example.ints("answers/start"), Some(&[1, 2][..]));
        let texts = parse(line, Some(&["answers/text".to_string()])).unwrap();
        assert_eq!(texts.names(), "'answers/text'");
    }

    #[test]
    fn nothing_is_dropped_without_a_word() {
        for (line, expected) in [
            (
                r#"{"a": [1, null]}"#,
                "'a' is a list of numbers with null at place 2, expected items of",
            ),
            (r#"{"a": ["x", 1]}"#, "'a' is a list of texts with numbers at place 2"),
            (r#"{"a": [["x"], [1]]}"#, "'a' is a list of lists of several types"),
            (r#"{"a": [{"b": 1}, 2]}"#, "'a' is a list of objects with numbers at place 2"),
            (
                r#"{"a": [{"b": 1}, {"b": 2, "c": 3}]}"#,
                "2 objects, of which 1 have 'c', expected all",
            ),
            (
                r#"{"a": 9223372036854775808}"#,
                "'a' holds the whole number 9223372036854775808, which",
            ),
            (r#"{"a": [1, -123456789012345678901]}"#, "whole number -123456789012345678901, which"),
        ] {
            let error = parse(line, None).unwrap_err();
            assert!(error.contains(expected), "{error}");
            assert!(parse(line, Some(&["other".to_string()])).is_ok());
        }
        assert!(
            parse(
                r#"{"a": 1e300, "b": "12345678901234567890", "c": 12345678901234567890.5}"#,
                None
            )
            .is_ok()
        );
    }

    #[test]
    fn what_is_no_json_is_told_with_the_remedy() {
        for (line, expected) in [
            ("{\"a\": NaN}", "malformed JSON at column 7: JSON has no number `NaN`: write null"),
            ("{\"a\": [1, -Infinity]}", "JSON has no number `-Infinity`"),
            ("{\"a\": None}", "`None` is Python's spelling"),
            ("\u{feff}{\"a\": 1}", "begins with a byte order mark"),
            (
                "{",
                "continues after the end of its line: write each on one line, for example with `jq -c`",
            ),
            ("{\"a\": [1,", "continues after the end of its line"),
            ("{\"a\": 1,}", "a comma stands before the closing bracket: remove it"),
            ("{'a': 1}", "JSON takes double quotes only"),
            ("{\"a\": 'x'}", "JSON takes double quotes only"),
            ("{\"a\": 1} {\"a\": 2}", "write each object on a line of its own"),
        ] {
            let error = parse(line, None).unwrap_err();
            assert!(error.contains(expected), "{line}: {error}");
        }
    }
}
