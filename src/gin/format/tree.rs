//! A value as it is written, with its comments.

use pest::iterators::Pair;

use super::Rule;
use super::gap::{Comment, Gap};

/// A value.
#[derive(Debug)]
pub(super) enum Node<'t> {
    /// A number, constant, reference, macro or derived value.
    Word(String),
    /// String literals that form one text together.
    Strings(Vec<Piece<'t>>),
    /// A list, tuple, dict, or a value in parentheses.
    Container(Container<'t>),
}

/// A string literal and the comment behind it.
#[derive(Debug)]
pub(super) struct Piece<'t> {
    pub text: &'t str,
    pub comments: Vec<Comment<'t>>,
}

/// The content of a pair of brackets.
#[derive(Debug)]
pub(super) struct Container<'t> {
    pub brackets: (char, char),
    /// The comment behind the opening bracket, on its line.
    pub comment: Option<Comment<'t>>,
    pub items: Vec<Item<'t>>,
    /// The comments before the closing bracket, on lines of their own.
    pub end: Vec<Comment<'t>>,
    /// Whether a comma may follow the last item; not so for a value in parentheses.
    pub takes_comma: bool,
    /// Whether the writer broke the line behind the opening bracket.
    pub broken: bool,
}

/// An item of a container.
#[derive(Debug)]
pub(super) struct Item<'t> {
    /// The comments before the item, on lines of their own.
    pub before: Vec<Comment<'t>>,
    /// Blank lines directly before it.
    pub blank_lines: usize,
    /// One value, or a key and its value.
    pub parts: Vec<Node<'t>>,
    /// The comment behind the item, on its line.
    pub comment: Option<Comment<'t>>,
}

/// The tree of a value within a text.
pub(super) fn node<'t>(pair: Pair<'t, Rule>, text: &'t str) -> Node<'t> {
    match pair.as_rule() {
        Rule::list => container(pair, text, ('[', ']')),
        Rule::dict => container(pair, text, ('{', '}')),
        Rule::parens => container(pair, text, ('(', ')')),
        Rule::string => strings(pair, text),
        _ => Node::Word(word(pair)),
    }
}

fn word(pair: Pair<'_, Rule>) -> String {
    let rule = pair.as_rule();
    let text = pair.as_str();
    let mut parts = pair.into_inner().map(|part| (part.as_rule(), part.as_str()));
    match rule {
        Rule::reference => {
            let (_, target) = parts.next().expect("a reference has a target");
            let call = if parts.next().is_some() { "()" } else { "" };
            format!("@{target}{call}")
        }
        Rule::macro_use => format!("%{}", parts.next().expect("a macro has a name").1),
        Rule::number => parts.map(|(_, part)| part).collect(),
        // A line break with a comment cannot be joined.
        Rule::computed if text.contains('#') => text.trim_end().to_string(),
        Rule::computed => {
            let inner = text.strip_prefix("%(").and_then(|text| text.strip_suffix(')'));
            let inner = inner.expect("the rule has these brackets");
            let words: Vec<&str> = inner.split_whitespace().filter(|word| *word != "\\").collect();
            format!("%({})", words.join(" "))
        }
        _ => text.trim_end().to_string(),
    }
}

fn strings<'t>(pair: Pair<'t, Rule>, text: &'t str) -> Node<'t> {
    let pieces: Vec<_> = pair.into_inner().map(|piece| piece.as_span()).collect();
    let ends = pieces.iter().skip(1).map(|next| Some(next.start())).chain([None]);
    let piece = |(piece, end): (&pest::Span<'t>, Option<usize>)| Piece {
        text: piece.as_str(),
        comments: end.map_or(Vec::new(), |end| Gap::read(&text[piece.end()..end], false).comments),
    };
    Node::Strings(pieces.iter().zip(ends).map(piece).collect())
}

fn container<'t>(pair: Pair<'t, Rule>, text: &'t str, brackets: (char, char)) -> Node<'t> {
    let span = pair.as_span();
    let (start, close) = (span.start(), span.start() + pair.as_str().trim_end().len() - 1);
    let (mut items, mut comma, mut after_colon) = (Vec::<Item<'t>>::new(), false, false);
    let (mut end, mut broken, mut comment) = (start + 1, false, None);
    for part in pair.into_inner() {
        match part.as_rule() {
            Rule::comma => comma = true,
            Rule::colon => after_colon = true,
            _ => {
                let gap = Gap::read(&text[end..part.as_span().start()], false);
                end = end_of(&part);
                let part = node(part, text);
                match items.last_mut() {
                    Some(item) if std::mem::take(&mut after_colon) => {
                        item.before.extend(gap.comments);
                        item.parts.push(part);
                    }
                    last => {
                        broken |= last.is_none() && gap.has_line_break;
                        let (behind, before) = split(gap.comments);
                        *last.map_or(&mut comment, |item| &mut item.comment) = behind;
                        let blank_lines = gap.blank_lines;
                        items.push(Item { before, blank_lines, parts: vec![part], comment: None });
                    }
                }
            }
        }
    }
    let (behind, end) = split(Gap::read(&text[end..close], false).comments);
    *items.last_mut().map_or(&mut comment, |item| &mut item.comment) = behind;
    let takes_comma = brackets.0 != '(' || items.len() != 1 || comma;
    Node::Container(Container { brackets, comment, items, end, takes_comma, broken })
}

/// The comment on the line that the gap starts in, and the others.
fn split(mut comments: Vec<Comment<'_>>) -> (Option<Comment<'_>>, Vec<Comment<'_>>) {
    match comments.first() {
        Some(first) if !first.own_line => (Some(comments.remove(0)), comments),
        _ => (None, comments),
    }
}

/// Returns the end of a value. The end of its pair may lie behind blanks and comments that follow.
fn end_of(pair: &Pair<'_, Rule>) -> usize {
    match pair.as_rule() {
        Rule::reference | Rule::macro_use | Rule::number | Rule::string => {
            let last = pair.clone().into_inner().last().expect("the rule has parts");
            last.as_span().end()
        }
        _ => pair.as_span().start() + pair.as_str().trim_end().len(),
    }
}
