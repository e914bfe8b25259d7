//! Fields of delimited lines, and features inserted into formats.

use super::{Context, PairKeys, Preprocess, Step, text_of};
use crate::error::DataError;
use crate::example::Example;
use crate::value::Value;
use gimlet_gin::Configurable;

/// Makes the fields of a delimited line features; quotes have no meaning. Source: t5
/// `preprocessors.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "t5.data.preprocessors.parse_tsv")]
pub struct ParseTsv {
    /// Names of the fields; 'inputs' and 'targets' if None.
    #[gin(default = None)]
    pub field_names: Option<Vec<String>>,
    /// The delimiter of fields, one character.
    #[gin(default = "\t".to_string())]
    pub field_delim: String,
    /// Columns of the fields; the first ones if None.
    #[gin(default = None)]
    pub field_columns: Option<Vec<usize>>,
}

impl Preprocess for ParseTsv {
    fn steps(&self, _: &Context<'_>) -> Result<Vec<Step>, DataError> {
        let names = self.field_names.clone().filter(|names| !names.is_empty());
        let names = names.unwrap_or(vec!["inputs".into(), "targets".into()]);
        let columns = self.field_columns.clone().filter(|columns| !columns.is_empty());
        let columns = columns.unwrap_or((0..names.len()).collect());
        if columns.len() != names.len() {
            let (columns, names) = (columns.len(), names.len());
            return Err(DataError::Config(format!(
                "`parse_tsv` has {names} `field_names` and {columns} `field_columns`"
            )));
        }
        let delimiter = delimiter(&self.field_delim)?;
        Ok(vec![Step::map(move |example| {
            let line = text_of(&example, "text")?;
            let fields = fields(line, delimiter, false)?;
            let value = |(name, column): (&String, &usize)| {
                let field = fields.get(*column).ok_or_else(|| {
                    let found = fields.len();
                    format!("expected at least {} fields, found {found} in {line:?}", column + 1)
                })?;
                Ok((name.as_str().into(), Value::Text(field.clone())))
            };
            names.iter().zip(&columns).map(value).collect()
        })])
    }
}

/// Inserts the fields of a delimited line into formats. Source: t5 `preprocessors.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "t5.data.preprocessors.preprocess_tsv")]
pub struct PreprocessTsv {
    /// The delimiter of fields, one character.
    #[gin(default = "\t".to_string())]
    pub field_delim: String,
    /// Number of fields, if they have no names.
    #[gin(default = 2)]
    pub num_fields: usize,
    /// Format of 'inputs', with `{0}` or `{name}` for a field.
    #[gin(default = "{0}".to_string())]
    pub inputs_format: String,
    /// Format of 'targets', with `{0}` or `{name}` for a field.
    #[gin(default = "{1}".to_string())]
    pub targets_format: String,
    /// Names of the fields; numbers from 0 if None.
    #[gin(default = None)]
    pub field_names: Option<Vec<String>>,
    /// Whether a field in double quotes may contain the delimiter, and doubled quotes, as in RFC
    /// 4180; otherwise quotes have no meaning.
    #[gin(default = false)]
    pub use_quote_delim: bool,
}

impl Preprocess for PreprocessTsv {
    fn steps(&self, _: &Context<'_>) -> Result<Vec<Step>, DataError> {
        let expected = self.field_names.as_ref().map_or(self.num_fields, Vec::len);
        let (inputs, targets) =
            (self.parts(&self.inputs_format)?, self.parts(&self.targets_format)?);
        let (keys, quotes) = (PairKeys::new(), self.use_quote_delim);
        let delimiter = delimiter(&self.field_delim)?;
        Ok(vec![Step::map(move |example| {
            let line = text_of(&example, "text")?;
            let fields = fields(line, delimiter, quotes)?;
            if fields.len() != expected {
                let found = fields.len();
                return Err(format!("expected {expected} fields, found {found} in {line:?}"));
            }
            Ok(keys.pair(join(&inputs, &fields), join(&targets, &fields)))
        })])
    }
}

/// A piece of a format: literal text, or a field.
enum FormatPiece {
    Literal(String),
    Field(usize),
}

impl PreprocessTsv {
    fn parts(&self, format: &str) -> Result<Vec<FormatPiece>, DataError> {
        let mut parts = Vec::new();
        for piece in pieces(format) {
            let field = match (piece, &self.field_names) {
                (Piece::Name(name), Some(names)) => names.iter().position(|known| known == name),
                (Piece::Name(name), None) if name.bytes().all(|byte| byte.is_ascii_digit()) => {
                    Some(self.numbered(name)?)
                }
                _ => None,
            };
            parts.push(match (field, piece) {
                (Some(field), _) => FormatPiece::Field(field),
                (None, Piece::Name(name)) => FormatPiece::Literal(format!("{{{name}}}")),
                (None, Piece::Literal(text)) => FormatPiece::Literal(text.to_string()),
            });
        }
        Ok(parts)
    }

    fn numbered(&self, name: &str) -> Result<usize, DataError> {
        name.parse().ok().filter(|field| *field < self.num_fields).ok_or_else(|| {
            DataError::Config(format!(
                "`preprocess_tsv` has a format with field {{{name}}}, and {} fields from {{0}}: \
                 bind `num_fields`",
                self.num_fields
            ))
        })
    }
}

fn join(parts: &[FormatPiece], fields: &[String]) -> String {
    let text = |part: &FormatPiece| match part {
        FormatPiece::Literal(text) => text.clone(),
        FormatPiece::Field(field) => fields[*field].clone(),
    };
    parts.iter().map(text).collect()
}

/// A piece of a format, not yet known to be a field.
#[derive(Clone, Copy)]
pub(super) enum Piece<'a> {
    /// Literal text.
    Literal(&'a str),
    /// The text in braces; not empty, without braces.
    Name(&'a str),
}

/// Splits a format at texts in braces.
pub(super) fn pieces(format: &str) -> Vec<Piece<'_>> {
    let mut out = Vec::new();
    let mut literal = 0;
    let mut open = None;
    for (place, c) in format.char_indices() {
        match (c, open) {
            ('{', _) => open = Some(place),
            ('}', Some(start)) if start + 1 < place => {
                out.push(Piece::Literal(&format[literal..start]));
                out.push(Piece::Name(&format[start + 1..place]));
                literal = place + 1;
                open = None;
            }
            ('}', _) => open = None,
            _ => {}
        }
    }
    out.push(Piece::Literal(&format[literal..]));
    out.retain(|piece| !matches!(piece, Piece::Literal("")));
    out
}

/// Returns the one character of `field_delim`.
fn delimiter(field_delim: &str) -> Result<char, DataError> {
    let mut chars = field_delim.chars();
    match (chars.next(), chars.next()) {
        (Some(delimiter), None) => Ok(delimiter),
        _ => Err(DataError::Config(format!(
            "`field_delim` is {field_delim:?}, expected one character"
        ))),
    }
}

/// The fields of a line, as `tf.io.decode_csv` splits it. An empty line has no fields.
fn fields(line: &str, delimiter: char, quotes: bool) -> Result<Vec<String>, String> {
    let mut out = Vec::new();
    let mut rest = (!line.is_empty()).then_some(line);
    while let Some(text) = rest {
        let (field, after) = match text.strip_prefix('"') {
            Some(quoted) if quotes => quoted_field(quoted, delimiter, line)?,
            _ => plain_field(text, delimiter, quotes, line)?,
        };
        out.push(field);
        rest = after;
    }
    Ok(out)
}

/// A field and the text after its delimiter.
type FieldAndRest<'a> = (String, Option<&'a str>);

fn plain_field<'a>(
    text: &'a str,
    delimiter: char,
    quotes: bool,
    line: &str,
) -> Result<FieldAndRest<'a>, String> {
    let (field, rest) = match text.split_once(delimiter) {
        Some((field, rest)) => (field, Some(rest)),
        None => (text, None),
    };
    if field.contains(['\n', '\r']) || (quotes && field.contains('"')) {
        return Err(format!("a field without quotes holds a quote or a line's end in {line:?}"));
    }
    Ok((field.to_string(), rest))
}

/// Reads a field after its opening quote.
fn quoted_field<'a>(
    text: &'a str,
    delimiter: char,
    line: &str,
) -> Result<FieldAndRest<'a>, String> {
    let mut field = String::new();
    let mut text = text;
    loop {
        let Some((before, after)) = text.split_once('"') else {
            return Err(format!("a quoted field does not end in {line:?}"));
        };
        field.push_str(before);
        if let Some(after) = after.strip_prefix('"') {
            field.push('"');
            text = after;
        } else if let Some(after) = after.strip_prefix(delimiter) {
            return Ok((field, Some(after)));
        } else if after.is_empty() {
            return Ok((field, None));
        } else {
            return Err(format!("a quote within a quoted field is not doubled in {line:?}"));
        }
    }
}

/// Inserts features into formats. Source: SeqIO `preprocessors.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "seqio.preprocessors.preprocess_tensorflow_examples")]
pub struct PreprocessTensorflowExamples {
    /// Format of 'inputs', with `{name}` for a feature of texts; other names stay unchanged.
    pub inputs_format: String,
    /// Format of 'targets', with `{name}` for a feature of texts; other names stay unchanged.
    pub targets_format: String,
}

impl Preprocess for PreprocessTensorflowExamples {
    fn steps(&self, _: &Context<'_>) -> Result<Vec<Step>, DataError> {
        let (spec, keys) = (self.clone(), PairKeys::new());
        Ok(vec![Step::map(move |example| {
            let inputs = formatted(&spec.inputs_format, &example)?;
            Ok(keys.pair(inputs, formatted(&spec.targets_format, &example)?))
        })])
    }
}

fn formatted(format: &str, example: &Example) -> Result<String, String> {
    let text = |piece: Piece<'_>| match piece {
        Piece::Name(name) if example.get(name).is_some() => {
            text_of(example, name).map(str::to_string)
        }
        Piece::Name(name) => Ok(format!("{{{name}}}")),
        Piece::Literal(text) => Ok(text.to_string()),
    };
    pieces(format).into_iter().map(text).collect()
}
