//! Writes values: on one line where they fit, else broken at their brackets.

use super::gap::Comment;
use super::tree::{Container, Item, Node, Piece};

/// The greatest length of lines, where it is possible.
const WIDTH: usize = 80;

/// How far the items of a container are indented.
const INDENT: usize = 2;

/// How far continued lines are indented.
const CONTINUED: usize = 4;

/// Writes at the end of a text.
pub(super) struct LayoutWriter<'o> {
    out: &'o mut String,
}

impl<'o> LayoutWriter<'o> {
    pub fn new(out: &'o mut String) -> Self {
        Self { out }
    }

    /// A line that is written as it is.
    pub fn words(&mut self, words: &str) {
        self.out.push_str(words);
    }

    /// Writes `key = value`. The value keeps its place on a line below the key only if it does not
    /// fit beside the key.
    pub fn binding(&mut self, key: &str, value: &Node<'_>, indent: usize, was_below: bool) {
        self.words(key);
        self.words(" = ");
        if self.push_flat(value, 0) {
            return;
        }
        let inner = indent + CONTINUED;
        match value {
            Node::Container(container) => self.container(container, indent),
            Node::Word(_) | Node::Strings(_) if was_below => {
                self.words("\\");
                self.new_line(inner);
                if !self.push_flat(value, 0) {
                    self.scalar(value, inner, " \\");
                }
            }
            scalar => self.scalar(scalar, inner, " \\"),
        }
    }

    /// Writes a value in brackets; continued strings start at column `continued`.
    fn node(&mut self, node: &Node<'_>, indent: usize, continued: usize) {
        if self.push_flat(node, 1) {
            return;
        }
        match node {
            Node::Container(container) => self.container(container, indent),
            scalar => self.scalar(scalar, continued, ""),
        }
    }

    /// Writes a value that does not fit on one line; strings continue on the next after
    /// `continuation`.
    fn scalar(&mut self, node: &Node<'_>, indent: usize, continuation: &str) {
        match node {
            Node::Word(word) => self.words(word),
            Node::Strings(pieces) => {
                for (i, piece) in pieces.iter().enumerate() {
                    if i > 0 {
                        self.words(continuation);
                        self.new_line(indent);
                    }
                    self.piece(piece, indent);
                }
            }
            Node::Container(container) => self.container(container, indent),
        }
    }

    /// Writes a string and the comments behind it; only strings in brackets have such comments.
    fn piece(&mut self, piece: &Piece<'_>, indent: usize) {
        self.words(piece.text);
        for comment in &piece.comments {
            match comment.own_line {
                true => self.new_line(indent),
                false => self.words("  "),
            }
            self.words(comment.text);
        }
    }

    /// Writes a container with one item a line.
    fn container(&mut self, container: &Container<'_>, indent: usize) {
        let inner = indent + INDENT;
        self.out.push(container.brackets.0);
        self.behind(container.comment);
        for (i, item) in container.items.iter().enumerate() {
            // The parts of a text in parentheses cannot be taken for other items.
            let continued = if container.takes_comma { inner + CONTINUED } else { inner };
            self.item(item, (inner, continued), i > 0);
            if container.takes_comma {
                self.words(",");
            }
            self.behind(item.comment);
        }
        for comment in &container.end {
            self.comment(comment, inner);
        }
        self.new_line(indent);
        self.out.push(container.brackets.1);
    }

    fn item(&mut self, item: &Item<'_>, (indent, continued): (usize, usize), may_part: bool) {
        for (i, comment) in item.before.iter().enumerate() {
            let parted = comment.blank_lines > 0 && (may_part || i > 0);
            self.comment(&Comment { blank_lines: usize::from(parted), ..*comment }, indent);
        }
        if item.blank_lines > 0 && (may_part || !item.before.is_empty()) {
            self.words("\n");
        }
        self.new_line(indent);
        for (i, part) in item.parts.iter().enumerate() {
            if i > 0 {
                self.words(": ");
            }
            self.node(part, indent, continued);
        }
    }

    /// A comment on a line of its own.
    fn comment(&mut self, comment: &Comment<'_>, indent: usize) {
        if comment.blank_lines > 0 {
            self.words("\n");
        }
        self.new_line(indent);
        self.words(comment.text);
    }

    /// A comment behind the text written last.
    fn behind(&mut self, comment: Option<Comment<'_>>) {
        if let Some(comment) = comment {
            self.words("  ");
            self.words(comment.text);
        }
    }

    /// Writes the value if it fits on this line together with `suffix` further characters.
    fn push_flat(&mut self, node: &Node<'_>, suffix: usize) -> bool {
        let line = self.out.rfind('\n').map_or(0, |at| at + 1);
        let column = self.out[line..].chars().count();
        let mut flat = Flat { text: String::new(), room: WIDTH.saturating_sub(column + suffix) };
        let fits = flat.node(node).is_some();
        if fits {
            self.out.push_str(&flat.text);
        }
        fits
    }

    fn new_line(&mut self, indent: usize) {
        self.out.push('\n');
        self.out.extend(std::iter::repeat_n(' ', indent));
    }
}

/// One line under construction; methods return `None` as soon as a part does not fit.
struct Flat {
    text: String,
    /// Characters that still fit.
    room: usize,
}

impl Flat {
    fn node(&mut self, node: &Node<'_>) -> Option<()> {
        match node {
            Node::Word(word) => self.push(word),
            Node::Strings(pieces) => pieces.iter().enumerate().try_for_each(|(i, piece)| {
                self.push(if i > 0 { " " } else { "" })?;
                self.piece(piece)
            }),
            Node::Container(container) => self.container(container),
        }
    }

    fn piece(&mut self, piece: &Piece<'_>) -> Option<()> {
        piece.comments.is_empty().then_some(())?;
        self.push(piece.text)
    }

    fn container(&mut self, container: &Container<'_>) -> Option<()> {
        let empty = container.items.is_empty();
        let commented = container.comment.is_some() || !container.end.is_empty();
        if commented || container.broken && !empty {
            return None;
        }
        let (open, close) = container.brackets;
        self.push(open.encode_utf8(&mut [0; 4]))?;
        for (i, item) in container.items.iter().enumerate() {
            self.push(if i > 0 { ", " } else { "" })?;
            self.item(item)?;
        }
        if open == '(' && container.takes_comma && container.items.len() == 1 {
            self.push(",")?;
        }
        self.push(close.encode_utf8(&mut [0; 4]))
    }

    fn item(&mut self, item: &Item<'_>) -> Option<()> {
        (item.before.is_empty() && item.comment.is_none()).then_some(())?;
        item.parts.iter().enumerate().try_for_each(|(i, part)| {
            self.push(if i > 0 { ": " } else { "" })?;
            self.node(part)
        })
    }

    fn push(&mut self, text: &str) -> Option<()> {
        // A text with a line break does not fit on one line.
        if text.contains('\n') {
            return None;
        }
        self.room = self.room.checked_sub(text.chars().count())?;
        self.text.push_str(text);
        Some(())
    }
}
