//! Python's `repr` of values, which gin prints and parses back.

use std::fmt::{Display, Formatter, Result, Write};

use super::value::{MacroUse, Reference, Value, ValueKind};

/// `repr` of a string: single quotes, unless the text contains single and no double quotes.
pub fn repr_str(text: &str) -> String {
    let quote = preferred_quote(text.contains('\''), text.contains('"'));
    let mut out = String::with_capacity(text.len() + 2);
    out.push(quote);
    for c in text.chars() {
        match c {
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\\' => out.push_str("\\\\"),
            c if c == quote => out.extend(['\\', c]),
            c if is_printable(c) => out.push(c),
            c => push_escaped(&mut out, u32::from(c)),
        }
    }
    out.push(quote);
    out
}

/// `repr` of bytes.
pub fn repr_bytes(bytes: &[u8]) -> String {
    let quote = preferred_quote(bytes.contains(&b'\''), bytes.contains(&b'"'));
    let mut out = String::with_capacity(bytes.len() + 3);
    out.extend(['b', quote]);
    for &byte in bytes {
        match byte {
            b'\n' => out.push_str("\\n"),
            b'\r' => out.push_str("\\r"),
            b'\t' => out.push_str("\\t"),
            b'\\' => out.push_str("\\\\"),
            byte if char::from(byte) == quote => out.extend(['\\', quote]),
            b' '..=b'~' => out.push(char::from(byte)),
            byte => push_escaped(&mut out, u32::from(byte)),
        }
    }
    out.push(quote);
    out
}

/// `repr` of a float: the shortest text that reads back, with an exponent below 1e-4 and from 1e16.
/// Infinity is `1e999`, since gin has no literal for it that reads back.
pub fn repr_float(value: f64) -> String {
    if value.is_infinite() {
        return if value > 0.0 { "1e999" } else { "-1e999" }.to_string();
    }
    if value.is_nan() {
        return "nan".to_string();
    }
    let scientific = format!("{value:e}");
    let (mantissa, exponent) = scientific.split_once('e').expect("`{:e}` writes an exponent");
    let exponent: i32 = exponent.parse().expect("`{:e}` writes a decimal exponent");
    if (-4..16).contains(&exponent) {
        return format!("{value:?}").replace("e0", "");
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{mantissa}e{sign}{:02}", exponent.unsigned_abs())
}

/// `repr` of a complex number: `3j`, and `-3j` where Python writes `(-0-3j)`, which gin does not read back.
fn repr_complex(re: f64, im: f64) -> String {
    let part = |value: f64| repr_float(value).trim_end_matches(".0").to_string();
    let reads_back = re.is_sign_positive() || im.is_sign_negative();
    if re == 0.0 && reads_back {
        return format!("{}j", part(im));
    }
    let plus = if im.is_sign_negative() { "" } else { "+" };
    format!("({}{plus}{}j)", part(re), part(im))
}

impl Display for Value {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        self.kind.fmt(f)
    }
}

impl Display for ValueKind {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            ValueKind::None => f.write_str("None"),
            ValueKind::Bool(true) => f.write_str("True"),
            ValueKind::Bool(false) => f.write_str("False"),
            ValueKind::Int(value) => value.fmt(f),
            ValueKind::Float(value) => f.write_str(&repr_float(*value)),
            ValueKind::Complex(re, im) => f.write_str(&repr_complex(*re, *im)),
            ValueKind::Str(text) => f.write_str(&repr_str(text)),
            ValueKind::Bytes(bytes) => f.write_str(&repr_bytes(bytes)),
            ValueKind::List(items) => write_items(f, '[', items, "]"),
            ValueKind::Tuple(items) if items.len() == 1 => write_items(f, '(', items, ",)"),
            ValueKind::Tuple(items) => write_items(f, '(', items, ")"),
            ValueKind::Dict(entries) => {
                f.write_char('{')?;
                for (i, (key, value)) in entries.iter().enumerate() {
                    let comma = if i == 0 { "" } else { ", " };
                    write!(f, "{comma}{key}: {value}")?;
                }
                f.write_char('}')
            }
            ValueKind::Reference(reference) => reference.fmt(f),
            ValueKind::Macro(used) => used.fmt(f),
            ValueKind::Computed(expression) => expression.fmt(f),
        }
    }
}

impl Display for Reference {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.write_char('@')?;
        self.scope.iter().try_for_each(|part| write!(f, "{part}/"))?;
        f.write_str(&self.selector)?;
        f.write_str(if self.called { "()" } else { "" })
    }
}

impl Display for MacroUse {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, "%{}", self.path())
    }
}

fn write_items(f: &mut Formatter<'_>, open: char, items: &[Value], close: &str) -> Result {
    f.write_char(open)?;
    for (i, item) in items.iter().enumerate() {
        f.write_str(if i == 0 { "" } else { ", " })?;
        item.fmt(f)?;
    }
    f.write_str(close)
}

fn preferred_quote(has_single: bool, has_double: bool) -> char {
    if has_single && !has_double { '"' } else { '\'' }
}

/// Python's `str.isprintable`. Rust escapes the same characters, except that it also escapes a
/// combining one at the start of a text; hence the letter before it.
fn is_printable(c: char) -> bool {
    if c.is_ascii() {
        return (' '..='~').contains(&c);
    }
    let text = ['a', c].iter().collect::<String>();
    text.escape_debug().count() == 2
}

fn push_escaped(out: &mut String, code: u32) {
    let written = match code {
        0..=0xff => write!(out, "\\x{code:02x}"),
        0x100..=0xffff => write!(out, "\\u{code:04x}"),
        _ => write!(out, "\\U{code:08x}"),
    };
    written.expect("writing to a String succeeds");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_read_as_python_prints_them() {
        for (value, expected) in [
            (1e-5, "1e-05"),
            (0.0001, "0.0001"),
            (1e16, "1e+16"),
            (1e15, "1000000000000000.0"),
            (9999999999999998.0, "9999999999999998.0"),
            (100000.0, "100000.0"),
            (-0.0, "-0.0"),
            (0.0, "0.0"),
            (1.5e300, "1.5e+300"),
            (123456789.123, "123456789.123"),
            (f64::NEG_INFINITY, "-1e999"),
        ] {
            assert_eq!(repr_float(value), expected);
        }
    }

    #[test]
    fn strings_read_as_python_prints_them() {
        for (text, expected) in [
            ("it's", "\"it's\""),
            ("\"", "'\"'"),
            ("'\"", "'\\'\"'"),
            ("\0\x7f\n\t\\", "'\\x00\\x7f\\n\\t\\\\'"),
            ("é\u{301}😀", "'é\u{301}😀'"),
            ("\u{a0}\u{ad}\u{200b}\u{2028}\u{e000}", "'\\xa0\\xad\\u200b\\u2028\\ue000'"),
            ("\u{10ffff}", "'\\U0010ffff'"),
        ] {
            assert_eq!(repr_str(text), expected);
        }
        assert_eq!(repr_bytes(b"a'\xff\n"), "b\"a'\\xff\\n\"");
    }
}
