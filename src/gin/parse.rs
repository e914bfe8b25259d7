//! The parser: text to statements, with every mistake of the text reported at once.
//!
//! [`super::scan`] cuts the text into logical lines, [`super::syntax`] reads one of them at a time, and this
//! module puts indented lines into blocks. A wrong line affects no other line.
//!
//! Indentation outside blocks means nothing, as in gin-config.

use super::ast::{Argument, Statement, StatementKind, Target};
use super::diagnostic::{Diagnostic, Severity};
use super::key;
use super::mistakes;
use super::scan::{Line, scan};
use super::source::{FileId, Span};
use super::syntax::{self, Content};
use super::value::Value;

/// Parses a text. Wrong statements are left out; the diagnostics may contain only warnings.
pub fn parse(file: FileId, text: &str) -> (Vec<Statement>, Vec<Diagnostic>) {
    let mut diagnostics = Vec::new();
    let lines = logical_lines(file, text, &mut diagnostics);
    let mut parser = FileParser {
        file,
        text,
        levels: vec![0],
        block: None,
        statements: Vec::with_capacity(lines.len()),
        diagnostics,
    };
    let mut mistakes = 0;
    for line in lines {
        let before = parser.diagnostics.len();
        parser.line(line);
        let new = &parser.diagnostics[before..];
        mistakes += new.iter().filter(|d| d.severity == Severity::Error).count();
        if mistakes > mistakes::MAX_MISTAKES {
            break;
        }
    }
    parser.end_block();
    let mut diagnostics = parser.diagnostics;
    // The scanner's reports came first; the reader wants the order of the text.
    diagnostics.sort_by_key(|diagnostic| diagnostic.place.as_ref().map(|(span, _)| span.start));
    (parser.statements, diagnostics)
}

/// Returns the logical lines of a text, right or wrong, without reporting mistakes.
pub fn lines(text: &str) -> Vec<Line> {
    logical_lines(FileId(0), text, &mut Vec::new())
}

/// Parses a text that is a single value; warnings are dropped.
pub fn parse_value(file: FileId, text: &str) -> Result<Value, Vec<Diagnostic>> {
    let mut diagnostics = Vec::new();
    let lines = logical_lines(file, text, &mut diagnostics);
    let mut value = None;
    let end = Span { file, start: text.len(), end: text.len() };
    match lines[..] {
        [] if !diagnostics.is_empty() => {}
        [] => diagnostics.push(mistakes::no_value(None, end)),
        [line] if line.broken => {}
        [line] => {
            let content = &text[line.start..line.end];
            value = syntax::single_value(file, line.start, content, &mut diagnostics);
        }
        [_, next, ..] => {
            let span = Span { file, start: next.start, end: next.end };
            diagnostics.push(mistakes::second_line(span));
        }
    }
    value.ok_or(diagnostics)
}

/// Cuts the text into logical lines, unless the text is binary.
fn logical_lines(file: FileId, text: &str, diagnostics: &mut Vec<Diagnostic>) -> Vec<Line> {
    if let Some(at) = text.find('\0') {
        diagnostics.push(mistakes::binary(Span { file, start: at, end: at + 1 }));
        return Vec::new();
    }
    let mark = text.chars().next().filter(|c| *c == '\u{feff}').map_or(0, char::len_utf8);
    if mark > 0 {
        diagnostics.push(mistakes::byte_order_mark(Span { file, start: 0, end: mark }));
    }
    scan(file, text, mark, diagnostics)
}

struct FileParser<'t> {
    file: FileId,
    text: &'t str,
    /// Columns of the indentations that are open; Python's indentation stack.
    levels: Vec<usize>,
    block: Option<OpenBlock>,
    statements: Vec<Statement>,
    diagnostics: Vec<Diagnostic>,
}

/// A block whose lines are being read.
struct OpenBlock {
    target: Target,
    arguments: Vec<Argument>,
    /// Whether any line was found, right or wrong.
    has_lines: bool,
    /// From the header to the last line found.
    span: Span,
    header: Span,
    /// How many levels are open inside it.
    depth: usize,
}

impl FileParser<'_> {
    fn line(&mut self, line: Line) {
        let indented = line.column > *self.levels.last().expect("the outermost level stays");
        self.enter_level(line);
        let span = self.span(line);
        let Some(block) = &self.block else {
            return self.statement(line);
        };
        let inside = match block.has_lines {
            false => indented,
            true => self.levels.len() >= block.depth,
        };
        if !inside {
            self.end_block();
            return self.statement(line);
        }
        let unexpectedly_indented = indented && block.has_lines;
        let depth = self.levels.len();
        let block = self.block.as_mut().expect("checked above");
        if !block.has_lines {
            block.depth = depth;
        }
        block.has_lines = true;
        block.span = block.span.to(span);
        if unexpectedly_indented {
            let at = Span { end: span.start, ..span };
            self.diagnostics.push(mistakes::over_indented(at, self.uses_tabs()));
        }
        self.block_line(line);
    }

    /// Keeps Python's stack of indentations.
    fn enter_level(&mut self, line: Line) {
        let mut dedented = false;
        while self.levels.last().is_some_and(|level| *level > line.column) {
            self.levels.pop();
            dedented = true;
        }
        if self.levels.last().is_some_and(|level| *level < line.column) {
            self.levels.push(line.column);
            if dedented {
                let at = Span { file: self.file, start: line.start, end: line.start };
                self.diagnostics.push(mistakes::misaligned(at, self.uses_tabs()));
            }
        }
    }

    /// A line outside any block.
    fn statement(&mut self, line: Line) {
        let span = self.span(line);
        let Some(content) = self.content(line) else { return };
        let kind = match content {
            Content::Assignment { key, value } => key::assignment(&key, value),
            Content::Import(import) => Ok(StatementKind::Import(import)),
            Content::Include(include) => Ok(StatementKind::Include(include)),
            Content::Header(head) => match key::header(&head) {
                Ok(target) => {
                    let depth = self.levels.len() + 1;
                    let (arguments, has_lines, header) = (Vec::new(), false, span);
                    let block = OpenBlock { target, arguments, has_lines, span, header, depth };
                    self.block = Some(block);
                    return;
                }
                Err(mistake) => Err(mistake),
            },
        };
        match kind {
            Ok(kind) => self.statements.push(Statement { kind, span }),
            Err(mistake) => self.diagnostics.push(mistake),
        }
    }

    /// A line inside the open block.
    fn block_line(&mut self, line: Line) {
        let span = self.span(line);
        let argument = match self.content(line) {
            None => return,
            Some(Content::Assignment { key, value }) => key::argument(&key, value),
            Some(Content::Header(key)) => Err(mistakes::nested_block(key.span)),
            Some(Content::Import(_)) => Err(mistakes::not_in_block(span, "an import")),
            Some(Content::Include(_)) => Err(mistakes::not_in_block(span, "an include")),
        };
        match argument {
            Ok(argument) => {
                let block = self.block.as_mut().expect("the caller is inside a block");
                block.arguments.push(argument);
            }
            Err(mistake) => self.diagnostics.push(mistake),
        }
    }

    fn end_block(&mut self) {
        let Some(block) = self.block.take() else { return };
        if !block.has_lines {
            let mistake = mistakes::empty_block(block.header, &block.target.selector);
            self.diagnostics.push(mistake);
            return;
        }
        let kind = StatementKind::Block(block.target, block.arguments);
        self.statements.push(Statement { kind, span: block.span });
    }

    fn content(&mut self, line: Line) -> Option<Content> {
        if line.broken {
            return None;
        }
        let text = &self.text[line.start..line.end];
        syntax::line(self.file, line.start, text, &mut self.diagnostics)
    }

    fn span(&self, line: Line) -> Span {
        Span { file: self.file, start: line.start, end: line.end }
    }

    /// Whether the text has tabs, which may explain indentation that looks right and is wrong.
    fn uses_tabs(&self) -> bool {
        self.text.contains('\t')
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::ValueKind;

    fn parsed(text: &str) -> Vec<Statement> {
        let (statements, diagnostics) = parse(FileId(0), text);
        assert_eq!(diagnostics, [], "{text}");
        statements
    }

    #[track_caller]
    fn check_errors(text: &str, expected: &[(&str, &str)]) {
        let (_, diagnostics) = parse(FileId(0), text);
        let found: Vec<(&str, &str)> = diagnostics
            .iter()
            .map(|d| {
                let span = d.place.as_ref().expect("parse errors have a place").0;
                (&text[span.start..span.end], d.message.as_str())
            })
            .collect();
        assert_eq!(found, expected, "{text}");
    }

    #[test]
    fn spans_cover_the_key_the_argument_and_each_value() {
        let text = "a/b.c.d = [1, -2, @s/f()]  # x\n";
        let [Statement { kind: StatementKind::Binding(target, argument), span }] =
            &parsed(text)[..]
        else {
            panic!("expected one binding")
        };
        let slice = |span: Span| &text[span.start..span.end];
        assert_eq!(slice(*span), "a/b.c.d = [1, -2, @s/f()]");
        assert_eq!((slice(target.span), slice(argument.span)), ("b.c", "d"));
        let ValueKind::List(items) = &argument.value.kind else { panic!("expected a list") };
        let items: Vec<&str> = items.iter().map(|item| slice(item.span)).collect();
        assert_eq!(items, ["1", "-2", "@s/f()"]);
    }

    #[test]
    fn a_wrong_line_costs_itself_only() {
        let (statements, diagnostics) =
            parse(FileId(0), "a = x\nb = 1\nf:\n  c = (\n  d = 2\ne = y");
        assert_eq!((statements.len(), diagnostics.len()), (2, 3));
    }

    #[test]
    fn blocks_follow_the_indentation() {
        let statements =
            parsed("f:\n  a = 1\n # c\n  b = 2\n\n  x.y = 3\n".replace("  x.y", "x.y").as_str());
        assert_eq!(statements.len(), 2);
        check_errors("f:\na = 1", &[("f:", "the block `f:` has no lines")]);
        check_errors(
            "f:\n  a = 1\n    b = 2\n c = 3",
            &[
                ("", "this line is indented more than the block it is in"),
                ("", "this line's indentation is not that of any line above it"),
            ],
        );
        assert_eq!(parsed("  a = 1\n    b = 2\n  c = 3").len(), 3);
    }
}
