//! Texts that gin refuses: the error message for each mistake, and the remedy.

mod lines;
mod values;

use super::diagnostic::Diagnostic;
use super::syntax::Excerpt;

pub(super) use lines::*;
pub(super) use values::*;

/// The parser stops after this many mistakes, so that those of a large text do not fill the memory.
pub(super) const MAX_MISTAKES: usize = 1000;

/// A character that gin text does not have outside strings.
pub(super) fn unexpected(found: Excerpt<'_>) -> Diagnostic {
    let Some(c) = found.text.chars().next() else {
        return Diagnostic::error(found.span, "unexpected end of the statement");
    };
    let code = u32::from(c);
    let error = Diagnostic::error(
        found.span,
        match c.is_control() || c.is_whitespace() {
            true => format!("unexpected character U+{code:04X}"),
            false => format!("unexpected `{c}`"),
        },
    );
    match unusual(found.text) {
        Some(help) => error.help(help),
        None => error,
    }
}

/// Returns the remedy for a character that no statement has.
fn unusual(text: &str) -> Option<&'static str> {
    match text.chars().next()? {
        '“' | '”' | '‘' | '’' | '«' | '»' => Some("write straight quotes: `'` or `\"`"),
        '`' => Some("strings are written with `'` or `\"`"),
        '–' | '—' | '−' => Some("write the ASCII minus sign: `-`"),
        '\u{a0}' | '\u{2007}' | '\u{202f}' | '\u{3000}' => Some("write a plain space"),
        '\u{feff}' | '\u{200b}'..='\u{200f}' | '\u{2060}' => {
            Some("delete this invisible character")
        }
        '$' => Some("gin reads no shell variables: let the shell replace it, in double quotes"),
        '?' | '\\' => Some("delete it, or put the text in quotes"),
        c if c.is_control() => Some("delete this control character"),
        _ => None,
    }
}

fn malformed_path(rest: Excerpt<'_>) -> Diagnostic {
    Diagnostic::error(first_char(rest).span, "malformed scope or selector")
        .label("expected a name on both sides, without spaces")
        .help("a path is `scope/module.name`")
}

fn semicolon(rest: Excerpt<'_>) -> Diagnostic {
    Diagnostic::error(rest.prefix(1).span, "a `;` does not separate statements")
        .help("write each statement on a line of its own")
}

fn end_of_line(rest: Excerpt<'_>) -> Diagnostic {
    let found = first_word(rest);
    Diagnostic::error(found.span, format!("expected the end of the line, found `{}`", found.text))
}

fn first_char(place: Excerpt<'_>) -> Excerpt<'_> {
    place.prefix(place.text.chars().next().map_or(0, char::len_utf8))
}

fn first_word(place: Excerpt<'_>) -> Excerpt<'_> {
    let end = place.text.find(|c: char| c.is_whitespace() || c == ',').unwrap_or(place.text.len());
    place.prefix(end.max(first_char(place).text.len()).min(place.text.len()))
}

/// Shortens the text to the part that fits in a message.
pub(super) fn shortened(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default();
    match line.char_indices().nth(40) {
        Some((end, _)) => format!("{}...", &line[..end]),
        None if line.len() < text.len() => format!("{line}..."),
        None => line.to_string(),
    }
}
