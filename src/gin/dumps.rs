//! JSON to the character as Python's `json.dumps` writes it: blanks after separators, `\uXXXX` for everything
//! beyond ASCII, Python's digits, and `NaN` and `Infinity`, which the standard does not have.

use std::fmt::Write;

use crate::repr::repr_float;

/// A value that Python would write.
#[derive(Clone, Debug, PartialEq)]
pub enum Json {
    /// `None`.
    Null,
    /// `True` or `False`.
    Bool(bool),
    /// A text.
    Text(String),
    /// A whole number.
    Int(i128),
    /// A number.
    Float(f64),
    /// A list.
    List(Vec<Json>),
    /// Keys in their order.
    Object(Vec<(String, Json)>),
}

impl Json {
    /// Creates a list.
    pub fn list<T>(items: impl IntoIterator<Item = T>, item: impl Fn(T) -> Self) -> Self {
        Self::List(items.into_iter().map(item).collect())
    }

    /// Creates an object of one entry.
    pub fn of(key: &str, value: Self) -> Self {
        Self::Object(vec![(key.to_string(), value)])
    }

    /// Returns the text on one line.
    pub fn dumps(&self) -> String {
        let mut out = String::new();
        self.write(None, 0, &mut out);
        out
    }

    /// Returns the text with an entry on each line, as `indent` of so many blanks makes it.
    pub fn dumps_indented(&self, indent: usize) -> String {
        let mut out = String::new();
        self.write(Some(indent), 0, &mut out);
        out
    }

    fn write(&self, indent: Option<usize>, depth: usize, out: &mut String) {
        match self {
            Self::Null => out.push_str("null"),
            Self::Bool(value) => {
                let _ = write!(out, "{value}");
            }
            Self::Text(text) => write_text(text, out),
            Self::Int(number) => {
                let _ = write!(out, "{number}");
            }
            Self::Float(number) => out.push_str(&float(*number)),
            Self::List(items) => {
                let item = |item: &Self, out: &mut String| item.write(indent, depth + 1, out);
                write_items(('[', ']'), items, (indent, depth), item, out);
            }
            Self::Object(entries) => {
                let entry = |(key, value): &(String, Self), out: &mut String| {
                    write_text(key, out);
                    out.push_str(": ");
                    value.write(indent, depth + 1, out);
                };
                write_items(('{', '}'), entries, (indent, depth), entry, out);
            }
        }
    }
}

/// Writes the items of a list or an object at a depth, one after another or on lines of their own.
fn write_items<T>(
    (open, close): (char, char),
    items: &[T],
    (indent, depth): (Option<usize>, usize),
    item: impl Fn(&T, &mut String),
    out: &mut String,
) {
    let begin_line = |depth: usize, out: &mut String| {
        if let Some(indent) = indent.filter(|_| !items.is_empty()) {
            let _ = write!(out, "\n{:1$}", "", indent * depth);
        }
    };
    out.push(open);
    for (index, it) in items.iter().enumerate() {
        match (index, indent) {
            (0, _) => {}
            (_, None) => out.push_str(", "),
            (_, Some(_)) => out.push(','),
        }
        begin_line(depth + 1, out);
        item(it, out);
    }
    begin_line(depth, out);
    out.push(close);
}

fn float(number: f64) -> String {
    match number {
        _ if number.is_nan() => "NaN".to_string(),
        f64::INFINITY => "Infinity".to_string(),
        f64::NEG_INFINITY => "-Infinity".to_string(),
        _ => repr_float(number),
    }
}

fn write_text(text: &str, out: &mut String) {
    out.push('"');
    for letter in text.chars() {
        match letter {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            ' '..='~' => out.push(letter),
            _ => {
                for unit in letter.encode_utf16(&mut [0; 2]) {
                    let _ = write!(out, "\\u{unit:04x}");
                }
            }
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Python 3.11 printed the expected texts.
    #[test]
    fn values_are_written_as_python_writes_them() {
        let check = |value: Json, expected: &str| assert_eq!(value.dumps(), expected);
        let text = "a\"\\/\n\u{8}\u{7f}é\u{1f600}";
        check(Json::Text(text.to_string()), r#""a\"\\/\n\b\u007f\u00e9\ud83d\ude00""#);
        let floats = [3.0, -0.5, 1e-5, 1.5e-7, 1e16, 123456789012345680.0, 0.1, -0.0];
        let printed = "[3.0, -0.5, 1e-05, 1.5e-07, 1e+16, 1.2345678901234568e+17, 0.1, -0.0]";
        check(Json::list(floats, Json::Float), printed);
        let special = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY];
        check(Json::list(special, Json::Float), "[NaN, Infinity, -Infinity]");
        let entries = [
            ("b", Json::Int(-3)),
            ("a", Json::List(vec![])),
            ("n", Json::Null),
            ("t", Json::Bool(true)),
        ];
        let entries = entries.map(|(key, value)| (key.to_string(), value));
        let object = Json::Object(entries.into());
        check(object.clone(), r#"{"b": -3, "a": [], "n": null, "t": true}"#);
        let nested = Json::list([object, Json::Int(1)], |item| item);
        let lines = "[\n  {\n    \"b\": -3,\n    \"a\": [],\n    \"n\": null,\n    \"t\": true\n  },\n  1\n]";
        assert_eq!(nested.dumps_indented(2), lines);
    }
}
