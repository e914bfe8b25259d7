//! Python's number and string literals, decoded. Errors carry a message, which the caller places.

use num_bigint::BigInt;

use super::value::ValueKind;

/// Longer decimal integers are refused, as Python does: reading them takes quadratic time.
const MAX_DIGITS: usize = 4300;

/// Longer integers in other bases are refused: printing them takes long.
const MAX_BINARY_DIGITS: usize = 1 << 16;

/// The error in a literal, and the remedy.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct BadLiteral {
    pub message: String,
    /// Bytes of the literal to point at.
    pub range: std::ops::Range<usize>,
    pub help: Option<String>,
}

impl BadLiteral {
    pub fn new(range: std::ops::Range<usize>, message: impl Into<String>) -> Self {
        Self { message: message.into(), range, help: None }
    }

    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }
}

/// Decodes a number without its sign.
pub(super) fn number(text: &str, negative: bool) -> Result<ValueKind, BadLiteral> {
    let all = 0..text.len();
    let (radix, digits) = match text.as_bytes() {
        [b'0', b'x' | b'X', ..] => (16, &text[2..]),
        [b'0', b'o' | b'O', ..] => (8, &text[2..]),
        [b'0', b'b' | b'B', ..] => (2, &text[2..]),
        _ => (10, text),
    };
    // Python allows one underscore between digits, and after a radix prefix.
    let separated = digits.strip_prefix('_').filter(|_| radix != 10).unwrap_or(digits);
    if separated.split('_').all(|group| is_number(group, radix)) {
        no_leading_zero(separated, radix, all.clone())?;
        return integer(&separated.replace('_', ""), radix, negative).ok_or_else(|| too_long(all));
    }
    if radix == 10 && is_float(text) {
        let magnitude: f64 =
            text.replace('_', "").parse().expect("Python's floats are Rust's without underscores");
        return Ok(ValueKind::Float(if negative { -magnitude } else { magnitude }));
    }
    if let Some(imaginary) = text.strip_suffix(['j', 'J']).filter(|text| is_imaginary(text)) {
        let imaginary: f64 = imaginary.replace('_', "").parse().expect("checked to be a number");
        // Python negates the whole number, real part included.
        return Ok(if negative {
            ValueKind::Complex(-0.0, -imaginary)
        } else {
            ValueKind::Complex(0.0, imaginary)
        });
    }
    let error = BadLiteral::new(all, format!("`{text}` is not a valid number"));
    Err(error.help("if it is a text, put it in quotes"))
}

fn is_number(group: &str, radix: u32) -> bool {
    !group.is_empty() && group.chars().all(|c| c.is_digit(radix))
}

/// Whether the text is digits alone, as in `007j`, or a float.
fn is_imaginary(text: &str) -> bool {
    is_float(text) || text.split('_').all(|group| is_number(group, 10))
}

/// Reads an integer; `None` if it is too long.
fn integer(digits: &str, radix: u32, negative: bool) -> Option<ValueKind> {
    if digits.len() > if radix == 10 { MAX_DIGITS } else { MAX_BINARY_DIGITS } {
        return None;
    }
    let magnitude = BigInt::parse_bytes(digits.as_bytes(), radix).expect("checked to be digits");
    Some(ValueKind::Int(if negative { -magnitude } else { magnitude }))
}

fn too_long(range: std::ops::Range<usize>) -> BadLiteral {
    let message = format!(
        "an integer has at most {MAX_DIGITS} decimal digits, or {MAX_BINARY_DIGITS} in other bases"
    );
    BadLiteral::new(range, message).help("write a float, `1e40`, or hexadecimal digits, `0xff`")
}

fn no_leading_zero(
    digits: &str,
    radix: u32,
    range: std::ops::Range<usize>,
) -> Result<(), BadLiteral> {
    let significant = digits.trim_start_matches(['0', '_']);
    if radix != 10 || significant.is_empty() || significant.len() == digits.len() {
        return Ok(());
    }
    let error = BadLiteral::new(range, "a decimal integer has no leading zeros");
    Err(error.help(format!("write `{significant}`, or `0o{significant}` for an octal number")))
}

/// `1.`, `.5`, `1e3`, `1_0.0_1e-1_0`
fn is_float(text: &str) -> bool {
    let digits = |part: &str| part.split('_').all(|group| is_number(group, 10));
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (text, None),
    };
    let exponent_fits = exponent.is_none_or(|e| digits(e.strip_prefix(['+', '-']).unwrap_or(e)));
    let mantissa_fits = match mantissa.split_once('.') {
        Some((whole, "")) => digits(whole),
        Some(("", fraction)) => digits(fraction),
        Some((whole, fraction)) => digits(whole) && digits(fraction),
        None => digits(mantissa),
    };
    mantissa_fits && exponent_fits
}

/// One string literal, decoded.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Text {
    Str(String),
    Bytes(Vec<u8>),
}

/// Decodes one string literal, given with its prefix and quotes.
pub(super) fn string(text: &str) -> Result<Text, BadLiteral> {
    let opener = text.find(['\'', '"']).expect("the grammar gives a string literal");
    let prefix = text[..opener].to_ascii_lowercase();
    if !["", "r", "u", "b", "br", "rb"].contains(&prefix.as_str()) {
        let message = format!("unknown string prefix `{prefix}`");
        return Err(BadLiteral::new(0..opener, message).help("delete the prefix"));
    }
    let body = &text[opener..];
    let quotes = if body.starts_with("'''") || body.starts_with("\"\"\"") { 3 } else { 1 };
    let start = opener + quotes;
    // Python reads every line break of a file as `\n`.
    let body = &text[start..text.len() - quotes];
    let decoder = Decoder {
        raw: prefix.contains('r'),
        bytes: prefix.contains('b'),
        text: body,
        at: 0,
        out: Vec::with_capacity(body.len()),
    };
    decoder.run().map_err(|mut error| {
        error.range = error.range.start + start..error.range.end + start;
        error
    })
}

/// Decodes the text between the quotes; strings are gathered as UTF-8.
struct Decoder<'t> {
    raw: bool,
    bytes: bool,
    text: &'t str,
    at: usize,
    out: Vec<u8>,
}

impl Decoder<'_> {
    fn run(mut self) -> Result<Text, BadLiteral> {
        while let Some(c) = self.text[self.at..].chars().next() {
            let start = self.at;
            self.at += c.len_utf8();
            match c {
                '\\' if !self.raw => self.escape(start)?,
                '\r' => {
                    self.out.push(b'\n');
                    self.skip("\n");
                }
                _ if self.bytes && !c.is_ascii() => {
                    let message = format!("bytes hold ASCII only, found `{c}`");
                    let error = BadLiteral::new(start..self.at, message);
                    return Err(error.help("escape its bytes: `\\xNN`, or drop the prefix `b`"));
                }
                _ => self.out.extend_from_slice(&self.text.as_bytes()[start..self.at]),
            }
        }
        if self.bytes {
            return Ok(Text::Bytes(self.out));
        }
        Ok(Text::Str(String::from_utf8(self.out).expect("only whole characters were pushed")))
    }

    /// Decodes the escape whose backslash is at `start`; the decoder stands after the backslash.
    fn escape(&mut self, start: usize) -> Result<(), BadLiteral> {
        let Some(c) = self.text[self.at..].chars().next() else {
            self.out.push(b'\\');
            return Ok(());
        };
        self.at += c.len_utf8();
        let code = match c {
            '\n' => return Ok(()),
            '\r' => {
                self.skip("\n");
                return Ok(());
            }
            '\\' | '\'' | '"' => u32::from(c),
            'a' => 0x07,
            'b' => 0x08,
            'f' => 0x0c,
            'n' => 0x0a,
            'r' => 0x0d,
            't' => 0x09,
            'v' => 0x0b,
            '0'..='7' => self.octal(),
            'x' => self.hexadecimal(start, 2)?,
            'u' if !self.bytes => self.hexadecimal(start, 4)?,
            'U' if !self.bytes => self.hexadecimal(start, 8)?,
            'N' if !self.bytes => self.named(start)?,
            // Python keeps unknown escapes as they are.
            _ => {
                self.out.push(b'\\');
                self.at -= c.len_utf8();
                return Ok(());
            }
        };
        self.push(code, start)
    }

    fn push(&mut self, code: u32, start: usize) -> Result<(), BadLiteral> {
        if self.bytes {
            // Python takes octal escapes above 0o377 modulo 256.
            self.out.push((code & 0xff) as u8);
            return Ok(());
        }
        let Some(c) = char::from_u32(code) else {
            let message = format!("U+{code:04X} is not a character");
            let error = BadLiteral::new(start..self.at, message);
            return Err(error.help("write the character itself instead of a surrogate pair"));
        };
        self.out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
        Ok(())
    }

    /// Reads up to three octal digits; the decoder stands after the first.
    fn octal(&mut self) -> u32 {
        let digits = &self.text.as_bytes()[self.at - 1..];
        let count = digits.iter().take(3).take_while(|b| matches!(b, b'0'..=b'7')).count();
        self.at += count - 1;
        digits[..count].iter().fold(0, |code, digit| code * 8 + u32::from(digit - b'0'))
    }

    fn hexadecimal(&mut self, start: usize, digits: usize) -> Result<u32, BadLiteral> {
        let found = self.text.as_bytes()[self.at..]
            .iter()
            .take(digits)
            .take_while(|b| b.is_ascii_hexdigit())
            .count();
        let text = &self.text[self.at..self.at + found];
        self.at += found;
        if found < digits {
            let name = &self.text[start..start + 2];
            let message = format!("`{name}` needs {digits} hexadecimal digits, found {found}");
            let error = BadLiteral::new(start..self.at, message);
            return Err(error.help("for a backslash, double it or use a raw string: `r'...'`"));
        }
        Ok(u32::from_str_radix(text, 16).expect("checked to be at most eight hexadecimal digits"))
    }

    /// Returns the character named by `{NAME}` behind `\N`.
    fn named(&mut self, start: usize) -> Result<u32, BadLiteral> {
        let rest = &self.text[self.at..];
        let name =
            rest.strip_prefix('{').and_then(|rest| rest.split_once('}')).map(|(name, _)| name);
        let Some(name) = name else {
            return Err(BadLiteral::new(
                start..self.at,
                "`\\N` needs a character's name in braces",
            )
            .help("for a backslash, double it or use a raw string: `r'...'`"));
        };
        self.at += name.len() + 2;
        // The crate looks at the character before a hyphen, and fails if there is none.
        let character = if name.starts_with('-') { None } else { unicode_names2::character(name) };
        character.map(u32::from).ok_or_else(|| {
            BadLiteral::new(start..self.at, format!("no character is named `{name}`"))
                .help("write the character itself, or its code: `\\u2022`")
        })
    }

    fn skip(&mut self, text: &str) {
        if self.text[self.at..].starts_with(text) {
            self.at += text.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_number(text: &str, expected: Option<ValueKind>) {
        assert_eq!(number(text, false).ok(), expected, "{text}");
    }

    #[track_caller]
    fn check_string(literal: &str, expected: &str) {
        assert_eq!(string(literal), Ok(Text::Str(expected.to_string())), "{literal}");
    }

    #[test]
    fn integers_are_those_of_python() {
        let int = |value: i64| Some(ValueKind::from(value));
        check_number("1_000", int(1000));
        check_number("000", int(0));
        check_number("0_0", int(0));
        check_number("0x_fF", int(255));
        check_number("0O17", int(15));
        check_number("0b1_0", int(2));
        for bad in ["007", "1__0", "1_", "0x", "0b2", "0o8", "0x_", "0_x1", "0__0", "0_1"] {
            check_number(bad, None);
        }
        assert_eq!(number("12", true).ok(), int(-12));
        check_number(&"9".repeat(4300), Some(ValueKind::Int(BigInt::from(10).pow(4300) - 1)));
        check_number(&"9".repeat(4301), None);
        assert!(number(&format!("0x{}", "f".repeat(10_000)), false).is_ok());
    }

    #[test]
    fn floats_are_those_of_python() {
        let float = |value| Some(ValueKind::Float(value));
        check_number("1.", float(1.0));
        check_number(".5", float(0.5));
        check_number("1e3", float(1000.0));
        check_number("1_0.0_1", float(10.01));
        check_number("007.5", float(7.5));
        check_number("1E+1_0", float(1e10));
        check_number("1e999", float(f64::INFINITY));
        for bad in ["1e", "1._5", "1_.5", "1.5.", "1e5.", "1_e5", "0x1j", "0x1.8", "1x"] {
            check_number(bad, None);
        }
        check_number("3j", Some(ValueKind::Complex(0.0, 3.0)));
        check_number("007.5e1J", Some(ValueKind::Complex(0.0, 75.0)));
    }

    #[test]
    fn strings_decode_every_escape() {
        check_string(
            r"'\a\b\f\n\r\t\v\\\'\x41\101\0\u00e9\U0001F600'",
            "\x07\x08\x0c\n\r\t\x0b\\'AA\0é😀",
        );
        check_string("'a\\\nb'", "ab");
        check_string("'''a\r\nb'''", "a\nb");
        check_string(r"'\d\ '", r"\d\ ");
        check_string(r"R'\n\''", r"\n\'");
        check_string("u\"it's\"", "it's");
        check_string(r"'\N{BULLET}\N{latin small letter e with acute}'", "•é");
        assert_eq!(string(r"bR'\x\n'"), Ok(Text::Bytes(br"\x\n".to_vec())));
        assert_eq!(string(r"b'\xff\u1\777'"), Ok(Text::Bytes(b"\xff\\u1\xff".to_vec())));
    }

    #[test]
    fn bad_strings_are_refused() {
        for bad in [
            r"'\x4'",
            r"'\u12'",
            r"'\ud800'",
            r"'\N{NO SUCH}'",
            r"'\N'",
            "f'a'",
            "ub'a'",
            "b'é'",
            "x'a'",
        ] {
            assert!(string(bad).is_err(), "{bad}");
        }
    }
}
