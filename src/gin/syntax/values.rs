//! The values of a line: literals, references, macros and containers.

use pest::iterators::Pair;

use super::{Builder, Key, Rule, bad_literal, split_scope};
use crate::expression::Expression;
use crate::literal::{self, Text};
use crate::value::{MacroUse, Reference, Value, ValueKind};
use crate::{derived, dict, mistakes};

/// `first: other: other` in a container.
struct Element {
    first: Value,
    others: Vec<Value>,
}

impl Builder<'_> {
    pub fn value(&mut self, pair: Pair<'_, Rule>, key: Option<&Key>) -> Option<Value> {
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
        let mut entries = dict::Entries::with_capacity(elements.len());
        for mut element in elements {
            let Some(value) = element.others.pop() else {
                let mistake = mistakes::set(container, element.first.span);
                return self.refuse(mistake);
            };
            if let Some(third) = element.others.pop() {
                return self.refuse(mistakes::second_colon(third.span));
            }
            if let Err(kind) = dict::check_key(&element.first) {
                return self.refuse(mistakes::unhashable(element.first.span, kind));
            }
            if let Some((first, again)) = entries.insert(element.first, value) {
                self.diagnostics.push(mistakes::duplicate_key(first, again));
            }
        }
        Some(ValueKind::Dict(entries.into_vec()))
    }

    /// Returns the elements of a container, and whether a comma follows the last; colons separate
    /// the values of an element. `None` if one of them is wrong.
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

    /// Reads a value of a container; reports another text in its place.
    fn item(&mut self, pair: Pair<'_, Rule>, key: Option<&Key>) -> Option<Value> {
        match pair.as_rule() {
            Rule::absent => self.refuse(mistakes::no_entry_value(self.place(&pair))),
            Rule::missing => self.refuse(mistakes::no_item(self.place(&pair))),
            Rule::not_a_value => self.refuse(mistakes::not_an_item(self.place(&pair), key)),
            _ => self.value(pair, key),
        }
    }

    pub fn string(&mut self, pair: Pair<'_, Rule>) -> Option<Value> {
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

    /// Reads a string with at least one piece `f'...'`.
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
}
