//! One layout for gin text: `gimlet gin fmt`.
//!
//! The layout is that of T5X's published files: one space around `=`, blocks indented by two, and a
//! container that does not fit in 80 columns has one item a line, indented by two, each with a comma.
//! A container is also broken if its first item stands on a line of its own. Comments, quotes, the
//! order of statements and blank lines up to two are the writer's. Nothing else depends on the
//! earlier layout, so that formatting twice changes nothing.
//!
//! ```text
//! a.b=[1,2]  # x         a.b = [1, 2]  # x
//! f:                     f:
//!     c = \               c = 'text'
//!         'text'
//! ```

mod gap;
mod layout;
mod tree;

use pest::Parser;

use super::ast::{Argument, Statement, StatementKind, Target};
use super::diagnostic::{Diagnostic, Severity};
use super::parse::parse;
use super::scan::{Line, scan};
use super::source::FileId;
use super::syntax::{Grammar, Rule};

use gap::Gap;
use layout::LayoutWriter;

/// The text is no file of a [`super::SourceMap`]; its places are used here only.
const FILE: FileId = FileId(0);

/// How far the lines of a block are indented.
const BLOCK_INDENT: usize = 2;

/// How many blank lines may follow each other, outside blocks and in them.
const MAX_BLANK_LINES: (usize, usize) = (2, 1);

/// The reason why a text is left as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unformatted {
    /// Mistakes in the text, with places in file 0.
    Mistakes(Vec<Diagnostic>),
    /// The result would not mean the same, which is a bug of the formatter.
    Unfaithful,
}

/// The text in the layout of the house. Line breaks become `\n`.
///
/// # Errors
/// A text that is not gin.
pub fn format(text: &str) -> Result<String, Unformatted> {
    // Python, too, reads all line breaks of a file as this one.
    let unix_text = text.replace("\r\n", "\n").replace('\r', "\n");
    let Some(statements) = correct(&unix_text) else {
        let mut mistakes = parse(FILE, text).1;
        mistakes.retain(is_error);
        return Err(Unformatted::Mistakes(mistakes));
    };
    let formatter = Formatter { text: &unix_text, statements: &statements, out: String::new() };
    let formatted = formatter.run();
    let says_the_same = correct(&formatted)
        .is_some_and(|after| statements.iter().map(meaning).eq(after.iter().map(meaning)));
    match says_the_same && gap::comments(&unix_text) == gap::comments(&formatted) {
        true => Ok(formatted),
        false => Err(Unformatted::Unfaithful),
    }
}

/// The statements of a text without mistakes.
fn correct(text: &str) -> Option<Vec<Statement>> {
    let (statements, diagnostics) = parse(FILE, text);
    (!diagnostics.iter().any(is_error)).then_some(statements)
}

fn is_error(diagnostic: &Diagnostic) -> bool {
    diagnostic.severity == Severity::Error
}

struct Formatter<'t> {
    text: &'t str,
    statements: &'t [Statement],
    out: String,
}

impl<'t> Formatter<'t> {
    fn run(mut self) -> String {
        let lines = scan(FILE, self.text, 0, &mut Vec::new());
        let inside = self.inside_blocks(&lines);
        let mut end = 0;
        for (i, line) in lines.iter().enumerate() {
            let before = i.checked_sub(1).map(|before| lines[before]);
            let in_block = before.is_some_and(|before| self.is_header(before) || inside[i - 1]);
            self.gap(&self.text[end..line.start], in_block, Some(inside[i]));
            self.line(*line, inside[i]);
            end = line.end;
        }
        let in_block = inside.last().is_some_and(|inside| *inside);
        self.gap(&self.text[end..], in_block, None);
        self.end_line();
        self.out
    }

    /// Whether each line stands inside a block.
    fn inside_blocks(&self, lines: &[Line]) -> Vec<bool> {
        let mut blocks = self
            .statements
            .iter()
            .filter(|statement| matches!(statement.kind, StatementKind::Block(..)))
            .map(|statement| statement.span)
            .peekable();
        let inside = |line: &Line| {
            while blocks.next_if(|block| block.end <= line.start).is_some() {}
            blocks.peek().is_some_and(|block| block.start < line.start)
        };
        lines.iter().map(inside).collect()
    }

    fn is_header(&self, line: Line) -> bool {
        let at =
            self.statements.binary_search_by_key(&line.start, |statement| statement.span.start);
        at.is_ok_and(|at| matches!(self.statements[at].kind, StatementKind::Block(..)))
    }

    /// Writes the gap between two statements, or before the first or behind the last. `next` says
    /// whether the next statement is in a block; it is `None` at the end.
    fn gap(&mut self, text: &'t str, mut in_block: bool, next: Option<bool>) {
        let gap = Gap::read(text, self.out.is_empty());
        for comment in &gap.comments {
            if !comment.own_line {
                self.out.push_str("  ");
                self.out.push_str(comment.text);
                continue;
            }
            // Behind a block's last line, a comment's column says whether it belongs to the block.
            in_block = in_block && (next == Some(true) || comment.column > 0);
            self.start_line(comment.blank_lines, in_block);
            self.out.push_str(comment.text);
        }
        if let Some(in_block) = next {
            self.start_line(gap.blank_lines, in_block);
        }
    }

    fn start_line(&mut self, blank_lines: usize, in_block: bool) {
        if !self.out.is_empty() {
            let (outside, inside) = MAX_BLANK_LINES;
            let most = if in_block { inside } else { outside };
            self.end_line();
            self.out.extend(std::iter::repeat_n('\n', blank_lines.min(most)));
        }
        self.out.extend(std::iter::repeat_n(' ', if in_block { BLOCK_INDENT } else { 0 }));
    }

    fn end_line(&mut self) {
        if !self.out.is_empty() && !self.out.ends_with('\n') {
            self.out.push('\n');
        }
    }

    fn line(&mut self, line: Line, in_block: bool) {
        let text = &self.text[line.start..line.end];
        let pair = Grammar::parse(Rule::line, text)
            .ok()
            .and_then(|mut pairs| pairs.next())
            .expect("the parser read this line before");
        let indent = if in_block { BLOCK_INDENT } else { 0 };
        let mut layout = LayoutWriter::new(&mut self.out);
        match pair.as_rule() {
            Rule::binding => {
                let mut parts = pair.into_inner();
                let key = parts.next().expect("a binding starts with its key");
                let value = parts.next().expect("a correct binding has a value");
                let between = &text[key.as_span().end()..value.as_span().start()];
                let value = tree::node(value, text);
                layout.binding(key.as_str(), &value, indent, between.contains('\n'));
            }
            Rule::block => {
                let key = pair.into_inner().next().expect("a block starts with its key");
                layout.words(&[key.as_str(), ":"].concat());
            }
            // Imports and includes are words, the strings of an include's path among them.
            _ => {
                let words =
                    pair.into_inner().flatten().filter(|part| part.as_rule() != Rule::string);
                let words: Vec<&str> = words.map(|word| word.as_str()).collect();
                layout.words(&words.join(" "));
            }
        }
    }
}

/// Returns the meaning of a statement, without places.
fn meaning(statement: &Statement) -> Vec<String> {
    match &statement.kind {
        StatementKind::Binding(target, argument) => {
            bound("binding", target, [argument].into_iter())
        }
        StatementKind::Block(target, arguments) => bound("block", target, arguments.iter()),
        StatementKind::Macro(definition) => {
            vec![definition.path.clone(), definition.value.to_string()]
        }
        StatementKind::Import(import) => {
            let alias = format!("{:?}", import.alias);
            vec![import.module.clone(), import.from.to_string(), alias]
        }
        StatementKind::Include(include) => vec![include.path.clone()],
    }
}

fn bound<'a>(
    kind: &str,
    target: &Target,
    arguments: impl Iterator<Item = &'a Argument>,
) -> Vec<String> {
    let head = [kind.to_string(), target.scope.join("/"), target.selector.clone()];
    let lines = arguments.map(|argument| format!("{} = {}", argument.name, argument.value));
    head.into_iter().chain(lines).collect()
}
