//! Cuts gin text into logical lines, as Python's `tokenize` does.
//!
//! A logical line ends at a line break outside strings and brackets that no backslash precedes.
//! Mistakes in strings and brackets are reported here, where the opener is known; such a line is
//! marked broken and the scan continues behind it. Every byte is looked at once.

use super::diagnostic::Diagnostic;
use super::mistakes::MAX_MISTAKES;
use super::source::{FileId, Span};

/// The greatest depth of nested brackets. CPython's own limit; it bounds the stack of later stages.
pub(super) const MAX_DEPTH: usize = 200;

/// The greatest length of a logical line in bytes. Its parts take a hundred times as much memory.
pub(super) const MAX_LENGTH: usize = 8 << 20;

/// A logical line: from its first token to its last, without a trailing comment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line {
    /// First byte.
    pub start: usize,
    /// One past the last byte.
    pub end: usize,
    /// Its indentation; a tab goes to the next multiple of eight.
    pub column: usize,
    /// Whether a mistake in it is reported already, so that it must not be parsed.
    pub broken: bool,
}

/// The logical lines of a text from byte `start` on.
pub(super) fn scan(
    file: FileId,
    text: &str,
    start: usize,
    diagnostics: &mut Vec<Diagnostic>,
) -> Vec<Line> {
    let mut scanner = Scanner { file, text: text.as_bytes(), at: start, diagnostics };
    std::iter::from_fn(|| scanner.line()).collect()
}

struct Scanner<'a> {
    file: FileId,
    text: &'a [u8],
    at: usize,
    diagnostics: &'a mut Vec<Diagnostic>,
}

impl Scanner<'_> {
    fn line(&mut self) -> Option<Line> {
        while self.diagnostics.len() <= MAX_MISTAKES {
            let column = self.indentation();
            match self.peek() {
                None => return None,
                Some(b'#') => self.skip_comment(),
                Some(b'\n' | b'\r') => self.at += 1,
                Some(_) => {
                    if let Some(line) = self.logical_line(column) {
                        return Some(line);
                    }
                }
            }
        }
        None
    }

    /// Scans tokens up to the end of the logical line; `None` if there are none.
    fn logical_line(&mut self, column: usize) -> Option<Line> {
        let start = self.at;
        let mut line = Line { start, end: start, column, broken: false };
        let mut brackets: Vec<usize> = Vec::new();
        while let Some(byte) = self.peek() {
            if line.end == line.start {
                // No token yet: a backslash may have come first.
                (line.start, line.end) = (self.at, self.at);
            }
            match byte {
                b'\n' | b'\r' if brackets.is_empty() => break,
                b'\n' | b'\r' => {
                    self.at += 1;
                    if self.statement_starts_here(column) {
                        break;
                    }
                    continue;
                }
                b' ' | b'\t' | 0x0c => {
                    self.at += 1;
                    continue;
                }
                b'#' => {
                    self.skip_comment();
                    continue;
                }
                b'\\' => {
                    self.continuation(&mut line);
                    let new_line = matches!(self.text[self.at - 1], b'\n' | b'\r');
                    if line.broken && new_line && self.statement_starts_here(column) {
                        break;
                    }
                    continue;
                }
                b'\'' | b'"' => self.string(&mut line),
                b'(' | b'[' | b'{' => {
                    if brackets.len() == MAX_DEPTH && !line.broken {
                        self.too_deep(&mut line);
                    }
                    brackets.push(self.at);
                    self.at += 1;
                }
                b')' | b']' | b'}' => {
                    self.close(brackets.pop(), &mut line);
                    self.at += 1;
                }
                _ => self.at += 1,
            }
            line.end = self.at;
        }
        if let Some(&opener) = brackets.last() {
            self.unclosed(opener, &mut line);
        }
        if line.end - line.start > MAX_LENGTH {
            self.too_long(&mut line);
        }
        (line.end > line.start).then_some(line)
    }

    /// Skips the backslash here and the line break after it; reports other backslashes.
    fn continuation(&mut self, line: &mut Line) {
        match &self.text[self.at + 1..] {
            [b'\r', b'\n', _, ..] => self.at += 3,
            [first @ (b'\n' | b'\r'), second, ..] if [*first, *second] != *b"\r\n" => self.at += 2,
            rest => {
                let blanks = rest.iter().take_while(|b| matches!(b, b' ' | b'\t')).count();
                let ends = matches!(rest.get(blanks), None | Some(b'\n' | b'\r'));
                let message = match (ends, blanks) {
                    // The text ends here, or after one line break.
                    (true, 0) => "nothing follows the backslash that continues this line",
                    (true, _) => "blanks stand behind the backslash that continues this line",
                    (false, _) => "a backslash joins lines only at the very end of one",
                };
                if !line.broken {
                    let help = "delete what follows the backslash, or the backslash";
                    self.report(self.at, self.at + 1, message, "this backslash", help);
                }
                line.broken = true;
                // After blanks, the next line probably belongs to this one.
                self.at += 1 + if ends { blanks } else { 0 };
                if ends && self.peek().is_some() {
                    self.at += if self.text[self.at..].starts_with(b"\r\n") { 2 } else { 1 };
                }
            }
        }
    }

    /// Skips a string; the scan is at its opening quote.
    fn string(&mut self, line: &mut Line) {
        let (opener, quote) = (self.at, self.text[self.at]);
        let triple = self.text[self.at..].starts_with(&[quote; 3]);
        self.at += if triple { 3 } else { 1 };
        while let Some(byte) = self.peek() {
            match byte {
                b'\\' if self.text[self.at + 1..].starts_with(b"\r\n") => self.at += 3,
                b'\\' => self.at = (self.at + 2).min(self.text.len()),
                b'\n' | b'\r' if !triple => break,
                _ if byte != quote => self.at += 1,
                _ if !triple => {
                    self.at += 1;
                    return;
                }
                _ if self.text[self.at..].starts_with(&[quote; 3]) => {
                    self.at += 3;
                    return;
                }
                _ => self.at += 1,
            }
        }
        if !line.broken {
            let mark = char::from(quote).to_string().repeat(if triple { 3 } else { 1 });
            let after_letter = opener > 0 && self.text[opener - 1].is_ascii_alphanumeric();
            let help = match triple {
                true => format!("end the string with {mark}"),
                false if quote == b'\'' && after_letter => {
                    "a text with an apostrophe stands in double quotes: `\"don't\"`".to_string()
                }
                false => format!("end the string with {mark} on the line where it starts"),
            };
            // A long unterminated text is marked by its opener alone.
            let end = if triple { opener + 3 } else { self.at };
            self.report(opener, end, "unterminated string", "the string starts here", &help);
        }
        line.broken = true;
    }

    /// Checks that the closing bracket here fits the opener.
    fn close(&mut self, opener: Option<usize>, line: &mut Line) {
        let found = char::from(self.text[self.at]);
        let opener = opener.map(|at| (at, char::from(self.text[at])));
        if line.broken || opener.is_some_and(|(_, bracket)| closer(bracket) == found) {
            return;
        }
        line.broken = true;
        let here = self.span(self.at, self.at + 1);
        self.diagnostics.push(match opener {
            None => Diagnostic::error(here, format!("`{found}` closes nothing"))
                .label("no bracket is open here")
                .help(format!("delete it, or add the opening `{}`", opener_of(found))),
            Some((at, bracket)) => {
                Diagnostic::error(here, format!("`{found}` does not close `{bracket}`"))
                    .label(format!("expected `{}`", closer(bracket)))
                    .related(self.span(at, at + 1), "this bracket is open")
            }
        });
    }

    fn unclosed(&mut self, opener: usize, line: &mut Line) {
        if !line.broken {
            let bracket = char::from(self.text[opener]);
            let message = format!("`{bracket}` is never closed");
            let help = format!("add the missing `{}`", closer(bracket));
            self.report(opener, opener + 1, &message, "opened here", &help);
        }
        line.broken = true;
    }

    fn too_long(&mut self, line: &mut Line) {
        if !line.broken {
            let message = format!("a statement is at most {} MiB long", MAX_LENGTH >> 20);
            let help = "keep data in files, and their paths in the configuration";
            self.report(line.start, line.start, &message, "this one is longer", help);
        }
        line.broken = true;
    }

    fn too_deep(&mut self, line: &mut Line) {
        let message = format!("brackets nest deeper than {MAX_DEPTH} levels");
        let help = "name the inner values with macros: `NAME = ...`, then `%NAME`";
        self.report(self.at, self.at + 1, &message, "this one is too deep", help);
        line.broken = true;
    }

    /// Inside brackets: whether the physical line that starts here can only be a new statement,
    /// which shows that a bracket was forgotten above.
    fn statement_starts_here(&self, column: usize) -> bool {
        let (indentation, start) = self.measure();
        let rest = &self.text[start..];
        let word = rest.iter().take_while(|byte| is_path_byte(**byte)).count();
        if indentation > column || word == 0 || rest[0].is_ascii_digit() {
            return false;
        }
        let (word, rest) = rest.split_at(word);
        let blanks = rest.iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
        match (word, &rest[blanks..]) {
            (_, [b'=', b'=', ..]) => false,
            (_, [b'=', ..]) => true,
            (b"None" | b"True" | b"False", _) => false,
            (_, [b':', b'\n' | b'\r', ..] | [b':']) => true,
            (b"import" | b"from" | b"include", [next, ..]) => {
                blanks > 0 && (is_path_byte(*next) || matches!(next, b'\'' | b'"'))
            }
            _ => false,
        }
    }

    /// Skips the indentation and returns its width.
    fn indentation(&mut self) -> usize {
        let (width, start) = self.measure();
        self.at = start;
        width
    }

    /// The width of the indentation here, and where it ends.
    fn measure(&self) -> (usize, usize) {
        let (mut width, mut at) = (0, self.at);
        while let Some(byte) = self.text.get(at) {
            width = match byte {
                b' ' => width + 1,
                b'\t' => (width / 8 + 1) * 8,
                0x0c => 0,
                _ => break,
            };
            at += 1;
        }
        (width, at)
    }

    fn skip_comment(&mut self) {
        while self.peek().is_some_and(|byte| byte != b'\n' && byte != b'\r') {
            self.at += 1;
        }
    }

    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn span(&self, start: usize, end: usize) -> Span {
        Span { file: self.file, start, end }
    }

    fn report(&mut self, start: usize, end: usize, message: &str, label: &str, help: &str) {
        let span = self.span(start, end);
        self.diagnostics.push(Diagnostic::error(span, message).label(label).help(help));
    }
}

fn is_path_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'/') || byte >= 0x80
}

fn closer(opener: char) -> char {
    match opener {
        '(' => ')',
        '[' => ']',
        _ => '}',
    }
}

fn opener_of(closer: char) -> char {
    match closer {
        ')' => '(',
        ']' => '[',
        _ => '{',
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, lines: &[&str], messages: &[&str]) {
        let mut diagnostics = Vec::new();
        let found = scan(FileId(0), text, 0, &mut diagnostics);
        let found: Vec<&str> = found.iter().map(|line| &text[line.start..line.end]).collect();
        let said: Vec<&str> = diagnostics.iter().map(|d| d.message.as_str()).collect();
        assert_eq!((&found[..], &said[..]), (lines, messages));
    }

    #[test]
    fn lines_end_outside_strings_and_brackets() {
        check("a = 1 # x\n\n  b = [1, # (\n 2]\r\n", &["a = 1", "b = [1, # (\n 2]"], &[]);
        check(
            "a = '#' '\\'' # '\nb = \"\"\"\n'\n\"\"\"",
            &["a = '#' '\\''", "b = \"\"\"\n'\n\"\"\""],
            &[],
        );
        check("a = \\\n 1\nb = 2", &["a = \\\n 1", "b = 2"], &[]);
        check("\\\r\n", &[], &["nothing follows the backslash that continues this line"]);
    }

    #[test]
    fn a_forgotten_bracket_costs_one_statement() {
        check("a = [1,\nb = 2", &["a = [1,", "b = 2"], &["`[` is never closed"]);
        check("a = {\nimport b", &["a = {", "import b"], &["`{` is never closed"]);
        check("a = {\nTrue: 1,\n%b:\n 1}", &["a = {\nTrue: 1,\n%b:\n 1}"], &[]);
        check("a = (1]\nb = 2", &["a = (1]", "b = 2"], &["`]` does not close `(`"]);
    }

    #[test]
    fn an_unterminated_string_ends_with_its_line() {
        check("a = 'x\nb = 2", &["a = 'x", "b = 2"], &["unterminated string"]);
        check(
            "a = [\n'x,\n'y',\n]\nb = 2",
            &["a = [\n'x,\n'y',\n]", "b = 2"],
            &["unterminated string"],
        );
        check(
            "a = 1 \\ \nb = 2",
            &["a = 1", "b = 2"],
            &["blanks stand behind the backslash that continues this line"],
        );
    }
}
