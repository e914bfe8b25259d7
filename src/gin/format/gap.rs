//! The text between the parts that have a meaning: blanks, line breaks, separators, comments.

/// A comment and its position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Comment<'t> {
    /// From `#` to its last character that is no blank.
    pub text: &'t str,
    /// Whether it is the first on its line.
    pub own_line: bool,
    /// Blank lines before it.
    pub blank_lines: usize,
    /// Its indentation, if it is the first on its line.
    pub column: usize,
}

/// The text between two parts.
#[derive(Debug)]
pub(super) struct Gap<'t> {
    pub comments: Vec<Comment<'t>>,
    /// Blank lines behind the last comment.
    pub blank_lines: usize,
    /// Whether a line ends in the gap.
    pub has_line_break: bool,
}

impl<'t> Gap<'t> {
    /// Reads a gap; `starts_line` says whether a line starts at its beginning.
    pub fn read(text: &'t str, starts_line: bool) -> Self {
        let mut comments = Vec::new();
        let (mut breaks, mut column, mut at) = (usize::from(starts_line), 0, 0);
        let mut has_line_break = false;
        while let Some(byte) = text.as_bytes().get(at) {
            let mut length = 1;
            match byte {
                b'\n' => {
                    (breaks, column, has_line_break) = (breaks + 1, 0, true);
                }
                b'\t' => column = (column / 8 + 1) * 8,
                // A backslash hides the line break that follows it.
                b'\\' => length = 2,
                b'#' => {
                    let rest = &text[at..];
                    length = rest.find('\n').unwrap_or(rest.len());
                    comments.push(Comment {
                        text: rest[..length].trim_end(),
                        own_line: breaks > 0,
                        blank_lines: breaks.saturating_sub(1),
                        column,
                    });
                    breaks = 0;
                }
                _ => column += 1,
            }
            at += length;
        }
        Gap { comments, blank_lines: breaks.saturating_sub(1), has_line_break }
    }
}

/// Every comment of a text, in order.
pub(super) fn comments(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(next) = text[at..].find(['#', '\'', '"']) {
        at += next;
        let rest = &text[at..];
        at += match rest.as_bytes()[0] {
            b'#' => {
                let length = rest.find('\n').unwrap_or(rest.len());
                found.push(rest[..length].trim_end());
                length
            }
            _ => string_length(rest),
        };
    }
    found
}

/// The length of the string that a text starts with, quotes included.
fn string_length(text: &str) -> usize {
    let quote = &text[..1];
    let triple = quote.repeat(3);
    let quotes = if text.starts_with(&triple) { triple.as_str() } else { quote };
    let mut at = quotes.len();
    while at < text.len() && !text[at..].starts_with(quotes) {
        let escaped = text[at..].starts_with('\\');
        let width = |at: usize| text[at..].chars().next().map_or(0, char::len_utf8);
        at += width(at);
        at += if escaped { width(at) } else { 0 };
    }
    (at + quotes.len()).min(text.len())
}
