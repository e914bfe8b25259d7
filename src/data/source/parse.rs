//! From a record to an example.

use super::files::Format;
use super::interleave::Record;
use super::tf_example::{TfFeature, decode};
use crate::data::error::DataError;
use crate::data::example::{Example, Key, Origin, Value};

/// Turns records into examples; shared by all threads.
pub(crate) struct RecordParser {
    text: Key,
    columns: Option<Vec<String>>,
    features: Vec<TfFeature>,
}

impl RecordParser {
    /// A parser of lines that keeps `columns` of JSON objects, or all.
    pub(crate) fn of_lines(columns: Option<&[String]>) -> Self {
        let columns = columns.map(<[String]>::to_vec);
        Self { text: "text".into(), columns, features: Vec::new() }
    }

    /// A parser of `tf.Example`s that have these features.
    pub(crate) fn of_tf_examples(features: Vec<TfFeature>) -> Self {
        Self { text: "text".into(), columns: None, features }
    }

    /// The example of a record; `None` for a blank line between JSON objects.
    pub(crate) fn parse(&self, record: Record) -> Result<Option<Example>, DataError> {
        let example = match record.file.format {
            Format::Text => match String::from_utf8(record.bytes) {
                Ok(text) => Example::of(self.text.clone(), Value::Text(text)),
                Err(_) => {
                    let (file, line) = (record.file.path.to_string(), record.number);
                    return Err(DataError::NotUtf8 { file, line });
                }
            },
            Format::Json if record.bytes.iter().all(u8::is_ascii_whitespace) => return Ok(None),
            Format::Json => self.parse_json(&record)?,
            Format::TfRecord => decode(&self.features, &record.bytes).map_err(|reason| {
                let (file, number) = (record.file.path.to_string(), record.number);
                DataError::CachedExample { file, number, reason }
            })?,
        };
        Ok(Some(example.read_at(Some(Origin { file: record.file, number: record.number }))))
    }

    fn parse_json(&self, record: &Record) -> Result<Example, DataError> {
        let file = || record.file.path.to_string();
        let line = record.number;
        let broken = |reason| DataError::Json { file: file(), line, reason };
        let Ok(text) = std::str::from_utf8(&record.bytes) else {
            return Err(DataError::NotUtf8 { file: file(), line });
        };
        let json: serde_json::Value = serde_json::from_str(text)
            .map_err(|error| broken(format!("malformed JSON at column {}", error.column())))?;
        let serde_json::Value::Object(object) = json else {
            return Err(broken("not a JSON object".to_string()));
        };
        let mut example = Example::default();
        self.flatten("", object, &mut example).map_err(broken)?;
        Ok(example)
    }

    fn flatten(
        &self,
        prefix: &str,
        object: serde_json::Map<String, serde_json::Value>,
        example: &mut Example,
    ) -> Result<(), String> {
        for (name, value) in object {
            let name = format!("{prefix}{name}");
            if let serde_json::Value::Object(inner) = value {
                self.flatten(&format!("{name}/"), inner, example)?;
            } else if self.columns.as_ref().is_none_or(|columns| columns.contains(&name)) {
                let value = feature(value).map_err(|reason| format!("\"{name}\": {reason}"))?;
                if let Some(value) = value {
                    example.set(name.into(), value);
                }
            }
        }
        Ok(())
    }
}

/// The feature that a list of lists of numbers is; `None` for lists of other lists.
fn rows_of(rows: Vec<serde_json::Value>) -> Result<Option<Value>, String> {
    let rows: Result<Vec<Option<Value>>, String> = rows.into_iter().map(feature).collect();
    let Some(rows) = rows?.into_iter().collect::<Option<Vec<Value>>>() else { return Ok(None) };
    if rows.iter().all(|row| matches!(row, Value::Ints(_))) {
        let ints = |row| if let Value::Ints(ids) = row { Some(ids) } else { None };
        return Ok(Some(Value::IntRows(rows.into_iter().filter_map(ints).collect())));
    }
    let floats = |row| match row {
        Value::Ints(ids) => Some(ids.into_iter().map(f64::from).collect()),
        Value::Floats(numbers) => Some(numbers),
        _ => None,
    };
    Ok(rows.into_iter().map(floats).collect::<Option<_>>().map(Value::FloatRows))
}

/// The feature that a JSON value is; `None` for null and for lists of mixed or deeper nested things.
fn feature(value: serde_json::Value) -> Result<Option<Value>, String> {
    use serde_json::Value as Json;
    Ok(match value {
        Json::String(text) => Some(Value::Text(text)),
        Json::Bool(truth) => Some(Value::Int(i64::from(truth))),
        Json::Number(number) => match number.as_i64() {
            Some(number) => Some(Value::Int(number)),
            None => number.as_f64().map(Value::Float),
        },
        Json::Array(items) if items.iter().all(Json::is_i64) => {
            let id = |item: &Json| item.as_i64().and_then(|id| i32::try_from(id).ok());
            let ids: Option<Vec<i32>> = items.iter().map(id).collect();
            Some(Value::Ints(ids.ok_or("an int does not fit in 32 bits")?))
        }
        Json::Array(items) if items.iter().all(Json::is_number) => {
            Some(Value::Floats(items.iter().filter_map(Json::as_f64).collect()))
        }
        Json::Array(items) if items.iter().all(Json::is_string) => {
            let text = |item: Json| item.as_str().unwrap_or_default().to_string();
            Some(Value::Texts(items.into_iter().map(text).collect()))
        }
        Json::Array(rows) if rows.iter().all(Json::is_array) => rows_of(rows)?,
        Json::Null | Json::Array(_) | Json::Object(_) => None,
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::files::SourceFile;
    use super::*;
    use crate::storage::Path;

    fn parse(format: Format, line: &[u8]) -> Result<Option<Example>, String> {
        let path = Path::parse("/data/f").unwrap();
        let file = Arc::new(SourceFile { path, format });
        let record = Record { file, number: 7, bytes: line.to_vec() };
        RecordParser::of_lines(None).parse(record).map_err(|error| error.to_string())
    }

    #[test]
    fn json_values_become_features() {
        let line = br#"{"t": "x", "n": 3, "f": 0.5, "ids": [1, 2], "no": null, "a": {"b": ["y"]}}"#;
        let example = parse(Format::Json, line).unwrap().unwrap();
        assert_eq!(example.names(), "'t', 'n', 'f', 'ids', 'a/b'");
        assert_eq!(example.ints("ids"), Some(&[1, 2][..]));
        assert_eq!(example.get("a/b"), Some(&Value::Texts(vec!["y".to_string()])));
        assert_eq!(parse(Format::Json, b"  "), Ok(None));
    }

    #[test]
    fn bad_lines_are_errors_with_file_and_line() {
        for (format, line, expected) in [
            (Format::Text, &b"\xff"[..], "/data/f:7: not UTF-8"),
            (Format::Json, b"\xff", "/data/f:7: not UTF-8"),
            (Format::Json, b"{\"a\": ", "/data/f:7: malformed JSON at column 6; each line"),
            (Format::Json, b"[1]", "/data/f:7: not a JSON object"),
            (Format::Json, b"{\"a\": [3000000000]}", "/data/f:7: \"a\": an int does not fit"),
        ] {
            let error = parse(format, line).unwrap_err();
            assert!(error.starts_with(expected), "{error}");
        }
    }
}
