//! Reads derived values: `%(A * 2)`, and `f'{A}/b'` with its pieces of text.

use std::ops::Range;

use pest::Parser;
use pest::iterators::Pair;

use super::expression::{Expression, Operator};
use super::literal::{self, BadLiteral, Text};
use super::mistakes;
use super::source::Span;
use super::syntax::{Grammar, Rule, split_scope};
use super::value::{MacroUse, Value, ValueKind};

/// The greatest number of operators in one expression. Recursion walks their tree.
const MAX_OPERATORS: usize = 200;

/// The expression of an `expression`. `base` starts where the pair's text starts.
pub(super) fn expression(pair: Pair<'_, Rule>, base: Span) -> Result<Expression, BadLiteral> {
    let is_operator = |part: &Pair<'_, Rule>| {
        matches!(part.as_rule(), Rule::sum | Rule::product | Rule::negative)
    };
    let beyond = pair.clone().into_inner().flatten().filter(is_operator).nth(MAX_OPERATORS);
    if let Some(operator) = beyond {
        let at = operator.as_span().start();
        let message = format!("an expression has at most {MAX_OPERATORS} operators");
        let error = BadLiteral::new(at..at + 1, message);
        return Err(error.help("name a part of it with a macro: `NAME = %(...)`"));
    }
    operand(pair, base)
}

/// The expression of an `expression`, `term` or operand.
fn operand(pair: Pair<'_, Rule>, base: Span) -> Result<Expression, BadLiteral> {
    let (range, text) = (pair.as_span().start()..pair.as_span().end(), pair.as_str());
    match pair.as_rule() {
        Rule::expression | Rule::term => operations(pair, base),
        Rule::negative => {
            let inner = pair.into_inner().next().expect("a sign has an operand");
            Ok(Expression::Negative(Box::new(operand(inner, base)?)))
        }
        Rule::digits => {
            let kind = literal::number(text, false).map_err(|bad| shifted(bad, range.start))?;
            Ok(value(kind, range, base))
        }
        _ => {
            let path = text.trim_start_matches('%').trim();
            let (scope, name) = split_scope(path);
            let used = MacroUse { scope, name: name.to_string() };
            Ok(value(ValueKind::Macro(used), range, base))
        }
    }
}

/// `a + b - c`, from the left.
fn operations(pair: Pair<'_, Rule>, base: Span) -> Result<Expression, BadLiteral> {
    let mut parts = pair.into_inner();
    let mut left = operand(parts.next().expect("the rule starts with an operand"), base)?;
    while let (Some(operator), Some(right)) = (parts.next(), parts.next()) {
        let operator = Operator::from_text(operator.as_str()).expect("the grammar has no others");
        let right = operand(right, base)?;
        left = Expression::Operation(Box::new(left), operator, Box::new(right));
    }
    Ok(left)
}

fn value(kind: ValueKind, range: Range<usize>, base: Span) -> Expression {
    let span = Span { start: base.start + range.start, end: base.start + range.end, ..base };
    Expression::Value(Box::new(Value { kind, span }))
}

fn shifted(mut bad: BadLiteral, by: usize) -> BadLiteral {
    bad.range = bad.range.start + by..bad.range.end + by;
    bad
}

/// Whether the piece of a string has the prefix `f`.
pub(super) fn is_interpolated(piece: &str) -> bool {
    let prefix = piece.split(['\'', '"']).next().unwrap_or_default();
    prefix.len() <= 2 && prefix.contains(['f', 'F']) && !prefix.contains(['b', 'B', 'u', 'U'])
}

/// The pieces of `f'...'`, whose text starts at `base`.
pub(super) fn interpolated(piece: &str, base: Span) -> Result<Vec<Expression>, BadLiteral> {
    let opener = piece.find(['\'', '"']).expect("the grammar gives a string literal");
    let quotes = if piece[opener..].len() >= 6 && is_triple(&piece[opener..]) { 3 } else { 1 };
    let reader = Reader {
        piece,
        base,
        raw: piece[..opener].contains(['r', 'R']),
        quotes: &piece[opener..opener + quotes],
        end: piece.len() - quotes,
    };
    reader.read(opener + quotes)
}

fn is_triple(text: &str) -> bool {
    text.starts_with("'''") || text.starts_with("\"\"\"")
}

struct Reader<'t> {
    piece: &'t str,
    base: Span,
    raw: bool,
    quotes: &'t str,
    /// Offset of the closing quotes.
    end: usize,
}

impl Reader<'_> {
    fn read(&self, mut at: usize) -> Result<Vec<Expression>, BadLiteral> {
        let mut out = Vec::new();
        let mut text = String::new();
        while at < self.end {
            let rest = &self.piece[at..self.end];
            let plain = rest.find(['{', '}']).unwrap_or(rest.len());
            // The braces of `\N{NAME}` belong to the escape.
            let named =
                !self.raw && rest[..plain].ends_with("\\N") && rest[plain..].starts_with('{');
            let length = match named.then(|| rest[plain..].find('}')).flatten() {
                Some(close) => plain + close + 1,
                None => plain,
            };
            text.push_str(&self.decoded(at..at + length)?);
            at += length;
            let rest = &self.piece[at..self.end];
            if rest.starts_with("{{") || rest.starts_with("}}") {
                text.push_str(&rest[..1]);
                at += 2;
            } else if rest.starts_with('}') {
                return Err(BadLiteral::new(at..at + 1, "`}` closes nothing in this text")
                    .help("a brace of the text itself is doubled: `}}`"));
            } else if rest.starts_with('{') {
                let close = rest.find('}').ok_or_else(|| {
                    BadLiteral::new(at..at + 1, "`{` is never closed in this text")
                        .help("a brace of the text itself is doubled: `{{`")
                })?;
                self.piece_before(&mut text, at, &mut out);
                out.push(self.braces(at + 1..at + close)?);
                at += close + 1;
            }
        }
        self.piece_before(&mut text, at, &mut out);
        Ok(out)
    }

    fn piece_before(&self, text: &mut String, at: usize, out: &mut Vec<Expression>) {
        if !text.is_empty() {
            out.push(value(ValueKind::Str(std::mem::take(text)), at..at, self.base));
        }
    }

    /// A range of the piece that is plain text, escapes decoded.
    fn decoded(&self, range: Range<usize>) -> Result<String, BadLiteral> {
        let raw = if self.raw { "r" } else { "" };
        let before = raw.len() + self.quotes.len();
        let literal = format!("{raw}{}{}{}", self.quotes, &self.piece[range.clone()], self.quotes);
        match literal::string(&literal) {
            Ok(Text::Str(text)) => Ok(text),
            Ok(Text::Bytes(_)) => unreachable!("the literal has no prefix `b`"),
            Err(mut bad) => {
                bad.range = bad.range.start - before..bad.range.end - before;
                Err(shifted(bad, range.start))
            }
        }
    }

    /// Reads the expression between braces.
    fn braces(&self, range: Range<usize>) -> Result<Expression, BadLiteral> {
        let text = &self.piece[range.clone()];
        let start = self.base.start + range.start;
        let found = Grammar::parse(Rule::lone_expression, text).ok().and_then(|mut p| p.next());
        let Some(pair) = found else {
            let formatted = text.contains([':', '!']);
            let help = match formatted {
                true => "the braces hold a macro or an expression, and no format",
                false => "write a macro's name, `{NAME}`, or an expression, `{NAME * 2}`",
            };
            let message = format!("`{}` cannot be computed", mistakes::shortened(text));
            return Err(BadLiteral::new(range, message).help(help));
        };
        expression(pair, Span { start, ..self.base }).map_err(|bad| shifted(bad, range.start))
    }
}
