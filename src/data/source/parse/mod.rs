//! Conversion of records to examples.

mod fields;
mod json;

use std::collections::BTreeMap;

use super::column_type::ColumnType;
use super::file::{Format, SourceFile};
use super::generator::Generator;
use super::read::Body;
use super::read::Record;
use super::tf_example::{ProtoKind, TfFeature, decode};
use crate::error::DataError;
use crate::example::{Example, Origin};
use crate::value::{Key, Value};

/// Turns records into examples; shared by all threads.
#[derive(Clone, PartialEq)]
pub(crate) struct RecordParser {
    text: Key,
    targets: Key,
    /// Features to keep; all if None.
    columns: Option<Vec<String>>,
    /// Types of CSV columns.
    pub(super) dtypes: BTreeMap<String, ColumnType>,
    features: Vec<TfFeature>,
    layout: ProtoKind,
    generator: Option<Generator>,
}

impl RecordParser {
    /// A parser that keeps these features, or all.
    pub(crate) fn of_columns(columns: Option<&[String]>) -> Self {
        Self {
            text: "text".into(),
            targets: "targets".into(),
            columns: columns.map(<[String]>::to_vec),
            dtypes: BTreeMap::new(),
            features: Vec::new(),
            layout: ProtoKind::Example,
            generator: None,
        }
    }

    /// A parser of `tf.Example`s that have these features.
    pub(crate) fn of_tf_examples(features: Vec<TfFeature>) -> Self {
        Self { features, ..Self::of_columns(None) }
    }

    /// A parser of `tf.SequenceExample`s that have these features.
    pub(super) fn of_sequence_examples(features: Vec<TfFeature>) -> Self {
        Self { features, layout: ProtoKind::SequenceExample, ..Self::of_columns(None) }
    }

    /// A parser that generates examples from their numbers.
    pub(super) fn of_generator(generator: Generator) -> Self {
        Self { generator: Some(generator), ..Self::of_columns(None) }
    }

    /// Sets the name of the feature of token ids.
    pub(super) fn with_targets(self, name: &str) -> Self {
        Self { targets: name.into(), ..self }
    }

    /// The example of a record; `None` for a blank line between JSON objects.
    pub(crate) fn parse(&self, record: Record) -> Result<Option<Example>, DataError> {
        let Record { file, number, offset, body } = record;
        let bad =
            |reason| DataError::Record { place: file.place(number, offset).to_string(), reason };
        let example = match body {
            Body::Bytes(bytes) => match &file.format {
                Format::Text => {
                    let mut text = utf8(bytes, &file, number, offset)?;
                    // Removes all carriage returns, as in TensorFlow `inputstream_interface.h`,
                    // `ReadLine`.
                    if text.contains('\r') {
                        text.retain(|c| c != '\r');
                    }
                    Example::of(self.text.clone(), Value::Text(text))
                }
                Format::TfRecord => decode(&self.features, self.layout, &bytes).map_err(bad)?,
                _ if bytes.iter().all(u8::is_ascii_whitespace) => return Ok(None),
                _ => {
                    let text = utf8(bytes, &file, number, offset)?;
                    let parsed = json::parse(&text, self.columns.as_deref());
                    parsed.map_err(|reason| {
                        let file = file.path.to_string();
                        DataError::Json { file, line: number, offset, reason }
                    })?
                }
            },
            Body::Item(bytes) => {
                let place = format!("{}, item {number} at byte {offset}", file.path);
                let bad = |reason| DataError::Record { place, reason };
                let parsed = match std::str::from_utf8(&bytes) {
                    Ok(text) => json::parse(text, self.columns.as_deref()),
                    Err(_) => Err("not UTF-8".to_string()),
                };
                parsed.map_err(bad)?
            }
            Body::Fields { bytes, columns } => match &file.format {
                Format::Csv(options) => {
                    self.parse_fields(&bytes, &columns, options).map_err(bad)?
                }
                _ => unreachable!("only CSV files yield fields"),
            },
            Body::Row { batch, index } => batch.example(index).map_err(bad)?,
            Body::Tokens { bytes, dtype } => {
                let ids = dtype.ids(&bytes).map_err(bad)?;
                Example::of(self.targets.clone(), Value::Ints(ids))
            }
            Body::Example(example) => *example,
            Body::Number if let Format::Samples(samples) = &file.format => {
                samples.features(number - 1)?.into_iter().collect()
            }
            Body::Number => {
                let generator = self.generator.as_ref().expect("a generated source has one");
                generator.example(number - 1)
            }
        };
        Ok(Some(example.read_at(Some(Origin { file, number, offset }))))
    }
}

fn utf8(bytes: Vec<u8>, file: &SourceFile, line: u64, offset: u64) -> Result<String, DataError> {
    String::from_utf8(bytes).map_err(|error| {
        let offset = offset + error.utf8_error().valid_up_to() as u64;
        DataError::NotUtf8 { file: file.path.to_string(), line, offset }
    })
}

/// Whether a feature, or the feature that it is part of, is among those to keep.
fn keeps(columns: Option<&[String]>, name: &str) -> bool {
    let is_in = |column: &String| {
        name.strip_prefix(&column[..]).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    columns.is_none_or(|columns| columns.iter().any(is_in))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use gimlet_storage::Path;

    fn parse(format: Format, line: &[u8]) -> Result<Option<Example>, String> {
        let path = Path::parse("/data/f").unwrap();
        let file = Arc::new(SourceFile::new(path, format));
        let body = Body::Bytes(line.to_vec());
        let record = Record { file, number: 7, offset: 100, body };
        RecordParser::of_columns(None).parse(record).map_err(|error| error.to_string())
    }

    #[test]
    fn lines_of_text_have_no_carriage_returns() {
        let example = parse(Format::Text, b"\ra\r\rb\r").unwrap().unwrap();
        assert_eq!(example.text("text"), Some("ab"));
    }

    #[test]
    fn bad_lines_are_errors_with_file_and_line() {
        let json = Format::Json { field: None };
        assert_eq!(parse(json.clone(), b"  "), Ok(None));
        for (format, line, expected) in [
            (&Format::Text, &b"ab\xff"[..], "/data/f:7: not UTF-8 at byte 102"),
            (&json, b"\xff", "/data/f:7: not UTF-8 at byte 100"),
            (
                &json,
                b"{\"a\": ",
                "/data/f:7 at byte 100: malformed JSON at column 6: the object continues",
            ),
            (&json, b"[1]", "/data/f:7 at byte 100: not a JSON object"),
            (&Format::TfRecord, b"\xff", "/data/f, record 7 at byte 100: no tf.Example"),
        ] {
            let error = parse(format.clone(), line).unwrap_err();
            assert!(error.starts_with(expected), "{error}");
        }
    }
}
