//! From one logical line to its parts: drives the grammar and turns pest's pairs into values.
//!
//! The grammar accepts every line; the parts that it marks as mistakes are reported by
//! [`mistakes`].

mod values;

use pest::Parser;
use pest::iterators::{Pair, Pairs};

use super::ast::{Import, Include};
use super::diagnostic::Diagnostic;
use super::literal::BadLiteral;
use super::mistakes;
use super::source::{FileId, Span};
use super::value::{Value, ValueKind};

#[derive(pest_derive::Parser)]
#[grammar = "../../grammar/gin.pest"]
pub(crate) struct Grammar;

/// The content of one logical line, before blocks are put together.
#[derive(Debug)]
pub(crate) enum Content {
    Assignment { key: Key, value: Value },
    Header(Key),
    Import(Import),
    Include(Include),
}

/// `scope/selector.arg` as written.
#[derive(Clone, Debug)]
pub(crate) struct Key {
    pub text: String,
    pub span: Span,
}

/// Reads one logical line, which starts at byte `base` of its text. `None` if it is wrong.
pub(crate) fn line(
    file: FileId,
    base: usize,
    text: &str,
    diagnostics: &mut Vec<Diagnostic>,
) -> Option<Content> {
    let mut builder = Builder { file, base, diagnostics };
    let before = builder.diagnostics.len();
    let pair = builder.parse(Rule::line, text)?.next()?;
    let content = match pair.as_rule() {
        Rule::binding => builder.assignment(pair),
        Rule::block => builder.header(pair),
        Rule::import | Rule::from_import => builder.import(pair),
        Rule::include => builder.include(pair),
        Rule::unfinished => builder.unfinished(pair),
        Rule::rest => builder.refuse(mistakes::not_a_statement(builder.place(&pair))),
        _ => None,
    };
    content.filter(|_| builder.no_errors_since(before))
}

/// Reads a single value, which starts at byte `base` of its text. `None` if it is wrong.
pub(crate) fn single_value(
    file: FileId,
    base: usize,
    text: &str,
    diagnostics: &mut Vec<Diagnostic>,
) -> Option<Value> {
    let mut builder = Builder { file, base, diagnostics };
    let before = builder.diagnostics.len();
    let pairs = builder.parse(Rule::single_value, text)?;
    let end = builder.span(text.len(), text.len());
    let value = builder.whole_value(None, pairs, end);
    value.filter(|_| builder.no_errors_since(before))
}

struct Builder<'d> {
    file: FileId,
    base: usize,
    diagnostics: &'d mut Vec<Diagnostic>,
}

/// A piece of text and its place.
#[derive(Clone, Copy)]
pub(crate) struct Excerpt<'t> {
    pub text: &'t str,
    pub span: Span,
}

impl<'t> Excerpt<'t> {
    /// The first `length` bytes of it.
    pub fn prefix(self, length: usize) -> Excerpt<'t> {
        let span = Span { end: self.span.start + length, ..self.span };
        Excerpt { text: &self.text[..length], span }
    }

    /// Returns the text after the first `length` bytes.
    pub fn suffix(self, length: usize) -> Excerpt<'t> {
        let span = Span { start: self.span.start + length, ..self.span };
        Excerpt { text: &self.text[length..], span }
    }
}

impl Builder<'_> {
    fn parse<'t>(&mut self, rule: Rule, text: &'t str) -> Option<Pairs<'t, Rule>> {
        match Grammar::parse(rule, text) {
            Ok(pairs) => Some(pairs),
            Err(error) => {
                let at = match error.location {
                    pest::error::InputLocation::Pos(at) => at,
                    pest::error::InputLocation::Span((at, _)) => at,
                };
                let length = text[at..].chars().next().map_or(0, char::len_utf8);
                let place = Excerpt { text, span: self.span(0, text.len()) };
                self.refuse::<()>(mistakes::unexpected(place.suffix(at).prefix(length)));
                None
            }
        }
    }

    fn assignment(&mut self, pair: Pair<'_, Rule>) -> Option<Content> {
        let end = self.pair_span(&pair).end;
        let mut parts = pair.into_inner();
        let key = self.key(&parts.next().expect("a binding starts with its key"));
        let end = Span { start: end, end, ..key.span };
        let value = self.whole_value(Some(&key), parts, end)?;
        Some(Content::Assignment { key, value })
    }

    /// `value? ~ rest?` up to the end of the line.
    fn whole_value(
        &mut self,
        key: Option<&Key>,
        parts: Pairs<'_, Rule>,
        end: Span,
    ) -> Option<Value> {
        let mut parts = parts.filter(|part| part.as_rule() != Rule::EOI);
        match parts.next() {
            None => self.refuse(mistakes::no_value(key, end)),
            Some(rest) if rest.as_rule() == Rule::rest => {
                let mistake = mistakes::not_a_value(self.place(&rest), key);
                self.refuse(mistake)
            }
            Some(value) => {
                let before = self.diagnostics.len();
                let place = self.place(&value);
                let value = self.value(value, key);
                // The text after a wrong value is most often a part of the same mistake.
                if let Some(rest) = parts.next().filter(|_| self.no_errors_since(before)) {
                    let mistake = mistakes::after_value(place, self.place(&rest), key);
                    self.refuse::<()>(mistake);
                }
                value
            }
        }
    }

    fn header(&mut self, pair: Pair<'_, Rule>) -> Option<Content> {
        let mut parts = pair.into_inner();
        let key = self.key(&parts.next().expect("a block starts with its key"));
        if let Some(rest) = parts.next() {
            let mistake = mistakes::after_header(self.place(&rest), &key);
            return self.refuse(mistake);
        }
        Some(Content::Header(key))
    }

    fn import(&mut self, pair: Pair<'_, Rule>) -> Option<Content> {
        let from = pair.as_rule() == Rule::from_import;
        let whole = self.place(&pair);
        let (mut module, mut names, mut rest) = (None, Vec::new(), None);
        for part in pair.into_inner() {
            match part.as_rule() {
                Rule::module => module = Some(self.place(&part)),
                Rule::alias => names.push(self.place(&part)),
                Rule::rest => rest = Some(self.place(&part)),
                _ => {}
            }
        }
        let module = module.expect("an import names a module");
        if let Some(rest) = rest {
            return self.refuse(mistakes::after_import(rest, whole));
        }
        let (path, alias) = match (from, &names[..]) {
            (false, names) => (module.text.to_string(), names.first()),
            (true, [name]) => (format!("{}.{}", module.text, name.text), None),
            (true, [name, alias]) => (format!("{}.{}", module.text, name.text), Some(alias)),
            (true, _) => unreachable!("the grammar gives one or two names"),
        };
        let alias = alias.map(|alias| alias.text.to_string());
        Some(Content::Import(Import { module: path, from, alias, span: module.span }))
    }

    fn include(&mut self, pair: Pair<'_, Rule>) -> Option<Content> {
        let mut parts = pair.into_inner().skip(1);
        let path = parts.next().expect("an include names a path");
        let place = self.place(&path);
        let value = self.string(path)?;
        if let Some(rest) = parts.next() {
            let mistake = mistakes::after_include(self.place(&rest));
            return self.refuse(mistake);
        }
        let ValueKind::Str(path) = value.kind else {
            return self.refuse(mistakes::include_of_bytes(place));
        };
        Some(Content::Include(Include { path, span: place.span }))
    }

    fn unfinished(&mut self, pair: Pair<'_, Rule>) -> Option<Content> {
        let mut parts = pair.into_inner();
        let key = self.key(&parts.next().expect("the rule starts with a key"));
        let rest = match parts.next() {
            Some(rest) => self.place(&rest),
            None => Excerpt { text: "", span: Span { start: key.span.end, ..key.span } },
        };
        self.refuse(mistakes::unfinished(&key, rest))
    }

    /// Unwraps a result; a mistake is reported at its place within the line.
    fn located<T>(&mut self, result: Result<T, BadLiteral>) -> Option<T> {
        result
            .map_err(|bad| {
                let span = self.span(bad.range.start, bad.range.end);
                self.diagnostics.push(described(span, bad));
            })
            .ok()
    }

    fn key(&self, pair: &Pair<'_, Rule>) -> Key {
        Key { text: pair.as_str().to_string(), span: self.pair_span(pair) }
    }

    fn place<'t>(&self, pair: &Pair<'t, Rule>) -> Excerpt<'t> {
        let text = pair.as_str().trim_end_matches([' ', '\t', '\x0c', '\r', '\n']);
        let start = self.base + pair.as_span().start();
        Excerpt { text, span: Span { file: self.file, start, end: start + text.len() } }
    }

    /// Returns the place of a pair, without the blanks that pest may count to its end.
    fn pair_span(&self, pair: &Pair<'_, Rule>) -> Span {
        self.place(pair).span
    }

    fn span(&self, start: usize, end: usize) -> Span {
        Span { file: self.file, start: self.base + start, end: self.base + end }
    }

    fn refuse<T>(&mut self, mistake: Diagnostic) -> Option<T> {
        self.diagnostics.push(mistake);
        None
    }

    fn no_errors_since(&self, before: usize) -> bool {
        self.diagnostics[before..].iter().all(|d| d.severity != super::Severity::Error)
    }
}

/// Returns the scope's components and the name after the last `/`.
pub(crate) fn split_scope(path: &str) -> (Vec<String>, &str) {
    match path.rsplit_once('/') {
        None => (Vec::new(), path),
        Some((scope, name)) => (scope.split('/').map(str::to_string).collect(), name),
    }
}

fn bad_literal(place: Excerpt<'_>, bad: BadLiteral) -> Diagnostic {
    let here = place.suffix(bad.range.start).prefix(bad.range.len());
    described(here.span, bad)
}

fn described(span: Span, bad: BadLiteral) -> Diagnostic {
    let diagnostic = Diagnostic::error(span, bad.message);
    match bad.help {
        Some(help) => diagnostic.help(help),
        None => diagnostic,
    }
}
