//! From one logical line to its parts: drives the grammar and turns pest's pairs into values.
//!
//! The grammar takes every line; what it filed under a mistake is reported by [`mistakes`].

use pest::Parser;
use pest::iterators::{Pair, Pairs};

use super::ast::{Import, Include};
use super::derived;
use super::diagnostic::Diagnostic;
use super::expression::Expression;
use super::literal::{self, BadLiteral, Text};
use super::mistakes;
use super::source::{FileId, Span};
use super::value::{MacroUse, Reference, Value, ValueKind};

#[derive(pest_derive::Parser)]
#[grammar = "grammar/gin.pest"]
pub(super) struct Grammar;

/// What one logical line says, before blocks are put together.
#[derive(Debug)]
pub(super) enum Content {
    Assignment { key: Key, value: Value },
    Header(Key),
    Import(Import),
    Include(Include),
}

/// `scope/selector.arg` as written.
#[derive(Clone, Debug)]
pub(super) struct Key {
    pub text: String,
    pub span: Span,
}

/// Reads one logical line, which starts at byte `base` of its text. `None` if it is wrong.
pub(super) fn line(
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
pub(super) fn single_value(
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

/// A piece of text and where it stands.
#[derive(Clone, Copy)]
pub(super) struct Place<'t> {
    pub text: &'t str,
    pub span: Span,
}

impl<'t> Place<'t> {
    /// The first `length` bytes of it.
    pub fn prefix(self, length: usize) -> Place<'t> {
        let span = Span { end: self.span.start + length, ..self.span };
        Place { text: &self.text[..length], span }
    }

    /// What follows the first `length` bytes.
    pub fn suffix(self, length: usize) -> Place<'t> {
        let span = Span { start: self.span.start + length, ..self.span };
        Place { text: &self.text[length..], span }
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
                let place = Place { text, span: self.span(0, text.len()) };
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
                // What follows a wrong value is most often a part of the same mistake.
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
            None => Place { text: "", span: Span { start: key.span.end, ..key.span } },
        };
        self.refuse(mistakes::unfinished(&key, rest))
    }

    fn value(&mut self, pair: Pair<'_, Rule>, key: Option<&Key>) -> Option<Value> {
        let span = self.pair_span(&pair);
        let kind = match pair.as_rule() {
            Rule::string => return self.string(pair),
            Rule::number => self.number(pair)?,
            Rule::constant => match pair.as_str() {
                "None" => ValueKind::None,
                text => ValueKind::Bool(text == "True"),
            },
            Rule::reference => self.reference(pair)?,
            Rule::macro_use => self.macro_use(pair)?,
            Rule::computed => {
                let expression = pair.into_inner().next().expect("the rule holds an expression");
                ValueKind::Computed(self.located(derived::expression(expression, self.span(0, 0)))?)
            }
            Rule::bad_computed => {
                let mistake = mistakes::bad_expression(self.place(&pair));
                return self.refuse(mistake);
            }
            Rule::list => ValueKind::List(self.items(pair, key)?.0),
            Rule::parens => {
                let (mut items, comma) = self.items(pair, key)?;
                if items.len() == 1 && !comma {
                    let item = items.pop().expect("one item");
                    return Some(item);
                }
                ValueKind::Tuple(items)
            }
            Rule::dict => self.dict(pair, key)?,
            rule => unreachable!("the grammar gives no {rule:?} as a value"),
        };
        Some(Value { kind, span })
    }

    /// The items of a list or tuple, and whether a comma follows the last.
    fn items(&mut self, pair: Pair<'_, Rule>, key: Option<&Key>) -> Option<(Vec<Value>, bool)> {
        let container = self.place(&pair);
        let (elements, comma) = self.elements(pair, key)?;
        let mut items = Vec::with_capacity(elements.len());
        for element in elements {
            if let Some(second) = element.others.first() {
                let mistake = mistakes::colon_in_list(second.span, container);
                return self.refuse(mistake);
            }
            items.push(element.first);
        }
        Some((items, comma))
    }

    fn dict(&mut self, pair: Pair<'_, Rule>, key: Option<&Key>) -> Option<ValueKind> {
        let container = self.place(&pair);
        let (elements, _) = self.elements(pair, key)?;
        let mut entries = super::dict::Entries::with_capacity(elements.len());
        for mut element in elements {
            let Some(value) = element.others.pop() else {
                let mistake = mistakes::set(container, element.first.span);
                return self.refuse(mistake);
            };
            if let Some(third) = element.others.pop() {
                return self.refuse(mistakes::second_colon(third.span));
            }
            if let Err(kind) = super::dict::check_key(&element.first) {
                return self.refuse(mistakes::unhashable(element.first.span, kind));
            }
            if let Some((first, again)) = entries.insert(element.first, value) {
                self.diagnostics.push(mistakes::duplicate_key(first, again));
            }
        }
        Some(ValueKind::Dict(entries.into_vec()))
    }

    /// The elements of a container, and whether a comma follows the last; each value of an element
    /// is parted from the next by a colon. `None` if one of them is wrong.
    fn elements(
        &mut self,
        pair: Pair<'_, Rule>,
        key: Option<&Key>,
    ) -> Option<(Vec<Element>, bool)> {
        let before = self.diagnostics.len();
        let closer = pair.as_str().chars().next_back().expect("a container has brackets");
        let (mut elements, mut joined) = (Vec::<Element>::new(), Vec::new());
        // A wrong element is reported once, at its first mistake.
        let (mut after_colon, mut wrong, mut comma) = (false, false, false);
        let mut last = None;
        for part in pair.into_inner() {
            if self.diagnostics.len() - before > mistakes::MAX_MISTAKES {
                break;
            }
            let (place, rule) = (self.place(&part), part.as_rule());
            match rule {
                Rule::comma => comma = true,
                Rule::colon => after_colon = true,
                Rule::stray => {
                    let value = last.expect("a stray follows a value");
                    if !std::mem::replace(&mut wrong, true) {
                        self.diagnostics.push(mistakes::stray(value, place, closer));
                    }
                }
                _ => {
                    let continues = std::mem::take(&mut after_colon);
                    last = Some(place);
                    if continues && wrong {
                        continue;
                    }
                    if rule == Rule::string && part.clone().into_inner().nth(1).is_some() {
                        joined.push(place.span);
                    }
                    let value = self.item(part, key);
                    wrong = value.is_none();
                    match (value, elements.last_mut().filter(|_| continues)) {
                        (Some(value), Some(element)) => element.others.push(value),
                        (Some(first), None) => elements.push(Element { first, others: Vec::new() }),
                        (None, _) => {}
                    }
                }
            }
        }
        if elements.len() > 1 && closer != '}' {
            self.diagnostics.extend(joined.into_iter().map(mistakes::joined_strings));
        }
        self.no_errors_since(before).then_some((elements, comma))
    }

    /// A value of a container, or what stands in its place.
    fn item(&mut self, pair: Pair<'_, Rule>, key: Option<&Key>) -> Option<Value> {
        match pair.as_rule() {
            Rule::absent => self.refuse(mistakes::no_entry_value(self.place(&pair))),
            Rule::missing => self.refuse(mistakes::no_item(self.place(&pair))),
            Rule::not_a_value => self.refuse(mistakes::not_an_item(self.place(&pair), key)),
            _ => self.value(pair, key),
        }
    }

    fn string(&mut self, pair: Pair<'_, Rule>) -> Option<Value> {
        if pair.clone().into_inner().any(|piece| derived::is_interpolated(piece.as_str())) {
            return self.interpolated(pair);
        }
        let span = self.pair_span(&pair);
        let mut joined: Option<Text> = None;
        for piece in pair.into_inner() {
            let place = self.place(&piece);
            let text = match literal::string(place.text) {
                Ok(text) => text,
                Err(bad) => return self.refuse(bad_literal(place, bad)),
            };
            match (&mut joined, text) {
                (None, text) => joined = Some(text),
                (Some(Text::Str(all)), Text::Str(text)) => all.push_str(&text),
                (Some(Text::Bytes(all)), Text::Bytes(text)) => all.extend(text),
                (Some(_), _) => return self.refuse(mistakes::mixed_strings(place)),
            }
        }
        let kind = match joined.expect("a string has a piece") {
            Text::Str(text) => ValueKind::Str(text),
            Text::Bytes(bytes) => ValueKind::Bytes(bytes),
        };
        Some(Value { kind, span })
    }

    /// A string of which some piece is `f'...'`.
    fn interpolated(&mut self, pair: Pair<'_, Rule>) -> Option<Value> {
        let span = self.pair_span(&pair);
        let mut pieces = Vec::new();
        for piece in pair.into_inner() {
            let place = self.place(&piece);
            if derived::is_interpolated(place.text) {
                match derived::interpolated(place.text, place.span) {
                    Ok(found) => pieces.extend(found),
                    Err(bad) => return self.refuse(bad_literal(place, bad)),
                }
                continue;
            }
            match literal::string(place.text) {
                Ok(Text::Str(text)) => {
                    let value = Value { kind: ValueKind::Str(text), span: place.span };
                    pieces.push(Expression::Value(Box::new(value)));
                }
                Ok(Text::Bytes(_)) => return self.refuse(mistakes::mixed_strings(place)),
                Err(bad) => return self.refuse(bad_literal(place, bad)),
            }
        }
        Some(Value { kind: ValueKind::Computed(Expression::Text(pieces)), span })
    }

    /// A result whose mistake has a place within the line.
    fn located<T>(&mut self, result: Result<T, BadLiteral>) -> Option<T> {
        result
            .map_err(|bad| {
                let span = self.span(bad.range.start, bad.range.end);
                self.diagnostics.push(described(span, bad));
            })
            .ok()
    }

    fn number(&mut self, pair: Pair<'_, Rule>) -> Option<ValueKind> {
        let mut parts = pair.into_inner();
        let first = parts.next().expect("a number has digits");
        let (negative, digits) = match parts.next() {
            Some(digits) => (true, digits),
            None => (false, first),
        };
        let place = self.place(&digits);
        match literal::number(place.text, negative) {
            Ok(kind) => Some(kind),
            Err(bad) => self.refuse(bad_literal(place, bad)),
        }
    }

    fn reference(&mut self, pair: Pair<'_, Rule>) -> Option<ValueKind> {
        let mut parts = pair.into_inner();
        let target = parts.next().expect("a reference has a target");
        let (scope, selector) = split_scope(target.as_str());
        let call = parts.next();
        let called = call.is_some();
        if let Some(arguments) = call.and_then(|call| call.into_inner().next()) {
            let mistake = mistakes::call_arguments(self.place(&arguments), selector);
            return self.refuse(mistake);
        }
        let (selector, target) = (selector.to_string(), selector.to_string());
        Some(ValueKind::Reference(Reference { scope, selector, target, called }))
    }

    fn macro_use(&mut self, pair: Pair<'_, Rule>) -> Option<ValueKind> {
        let target = pair.into_inner().next().expect("a macro has a name");
        let (scope, name) = split_scope(target.as_str());
        Some(ValueKind::Macro(MacroUse { scope, name: name.to_string() }))
    }

    fn key(&self, pair: &Pair<'_, Rule>) -> Key {
        Key { text: pair.as_str().to_string(), span: self.pair_span(pair) }
    }

    fn place<'t>(&self, pair: &Pair<'t, Rule>) -> Place<'t> {
        let text = pair.as_str().trim_end_matches([' ', '\t', '\x0c', '\r', '\n']);
        let start = self.base + pair.as_span().start();
        Place { text, span: Span { file: self.file, start, end: start + text.len() } }
    }

    /// Where a pair stands, without the blanks that pest may count to its end.
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

/// `first: other: other` in a container.
struct Element {
    first: Value,
    others: Vec<Value>,
}

/// The scope's components and what follows the last `/`.
pub(super) fn split_scope(path: &str) -> (Vec<String>, &str) {
    match path.rsplit_once('/') {
        None => (Vec::new(), path),
        Some((scope, name)) => (scope.split('/').map(str::to_string).collect(), name),
    }
}

fn bad_literal(place: Place<'_>, bad: BadLiteral) -> Diagnostic {
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
