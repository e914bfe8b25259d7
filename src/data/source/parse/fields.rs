//! Conversion of CSV records to examples.

use super::super::column_type::ColumnType;
use super::super::file::CsvOptions;
use super::super::read::fields;
use super::{RecordParser, keeps};
use crate::example::Example;
use crate::value::{Key, Value};

impl RecordParser {
    /// The example of a record with these field names, or a description of the mistake in it.
    pub(super) fn parse_fields(
        &self,
        bytes: &[u8],
        names: &[Key],
        options: &CsvOptions,
    ) -> Result<Example, String> {
        let fields = fields(bytes, options)?;
        if fields.len() != names.len() {
            return Err(format!(
                "it has {} fields, expected {}, one for each column",
                fields.len(),
                names.len()
            ));
        }
        let mut example = Example::default();
        for (name, field) in names.iter().zip(fields) {
            if keeps(self.columns.as_deref(), name) {
                let dtype = self.dtypes.get(&**name).copied().unwrap_or(ColumnType::String);
                let text =
                    String::from_utf8(field).map_err(|_| format!("'{name}' is not UTF-8"))?;
                example.set(name.clone(), value(text, dtype).map_err(|e| format!("'{name}' {e}"))?);
            }
        }
        Ok(example)
    }
}

fn value(text: String, dtype: ColumnType) -> Result<Value, String> {
    let unfit = |expected| format!("holds {text:?}, expected {expected}");
    match dtype {
        ColumnType::String => Ok(Value::Text(text)),
        ColumnType::Int => text.trim().parse().map(Value::Int).map_err(|_| unfit("an int")),
        ColumnType::Float => text.trim().parse().map(Value::Float).map_err(|_| unfit("a float")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(record: &str) -> Result<Example, String> {
        let mut parser = RecordParser::of_columns(None);
        parser.dtypes.insert("n".to_string(), ColumnType::Int);
        let options = CsvOptions {
            delimiter: b'\t',
            quote: Some(b'"'),
            column_names: None,
            skip: 0,
            typed: Vec::new(),
        };
        parser.parse_fields(record.as_bytes(), &["t".into(), "n".into()], &options)
    }

    #[test]
    fn fields_are_text_unless_typed() {
        let example = parse("\"x\ty\"\t 12").unwrap();
        assert_eq!(example.text("t"), Some("x\ty"));
        assert_eq!(example.get("n"), Some(&Value::Int(12)));
        assert!(parse("x\t1.5").unwrap_err().contains("'n' holds \"1.5\", expected an int"));
        assert!(parse("x").unwrap_err().contains("it has 1 fields, expected 2"));
    }
}
