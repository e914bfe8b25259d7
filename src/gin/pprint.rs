//! Python's `pprint.pformat`, which lays out the values of gin's printed configurations.
//!
//! The algorithm is that of CPython 3.11's `pprint.PrettyPrinter` with one space of indentation:
//! a value that fits stays on one line; else containers take one line an item, and strings are
//! split at blanks. Lengths count characters.

use num_traits::ToPrimitive;

use super::repr::{repr_bytes, repr_str};
use super::value::{Value, ValueKind};

/// The value as Python prints it within `width` columns. Dicts print sorted by key.
pub fn pformat(value: &Value, width: usize) -> String {
    let mut printer = Printer { width, out: String::new() };
    let place = PrintPosition { indent: 0, allowance: 0, level: 0 };
    printer.format(&sorted(value), place);
    printer.out
}

/// The position of a value in the layout.
#[derive(Clone, Copy)]
struct PrintPosition {
    /// The column in which the value starts.
    indent: usize,
    /// The number of columns that the following text takes.
    allowance: usize,
    /// The number of containers around the value.
    level: usize,
}

struct Printer {
    width: usize,
    out: String,
}

impl Printer {
    fn format(&mut self, value: &Value, place: PrintPosition) {
        let repr = value.to_string();
        if repr.chars().count() + place.indent + place.allowance <= self.width {
            return self.out.push_str(&repr);
        }
        let PrintPosition { indent, allowance, level } = place;
        let inside = |closer: usize| PrintPosition {
            indent: indent + 1,
            allowance: allowance + closer,
            level: level + 1,
        };
        match &value.kind {
            ValueKind::List(items) => self.items("[", items, "]", inside(1)),
            ValueKind::Tuple(items) if items.len() == 1 => self.items("(", items, ",)", inside(2)),
            ValueKind::Tuple(items) => self.items("(", items, ")", inside(1)),
            ValueKind::Dict(entries) => self.entries(entries, inside(1)),
            ValueKind::Str(text) if !text.is_empty() => self.string(text, place),
            ValueKind::Bytes(bytes) if bytes.len() > 4 => self.bytes(bytes, place),
            _ => self.out.push_str(&repr),
        }
    }

    fn items(&mut self, open: &str, items: &[Value], close: &str, place: PrintPosition) {
        self.out.push_str(open);
        for (i, item) in items.iter().enumerate() {
            let last = i + 1 == items.len();
            self.format(
                item,
                PrintPosition { allowance: if last { place.allowance } else { 1 }, ..place },
            );
            if !last {
                self.out.push(',');
                self.new_line(place.indent);
            }
        }
        self.out.push_str(close);
    }

    fn entries(&mut self, entries: &[(Value, Value)], place: PrintPosition) {
        self.out.push('{');
        for (i, (key, value)) in entries.iter().enumerate() {
            let last = i + 1 == entries.len();
            let key = key.to_string();
            self.out.push_str(&key);
            self.out.push_str(": ");
            let indent = place.indent + key.chars().count() + 2;
            let allowance = if last { place.allowance } else { 1 };
            self.format(value, PrintPosition { indent, allowance, ..place });
            if !last {
                self.out.push(',');
                self.new_line(place.indent);
            }
        }
        self.out.push('}');
    }

    fn string(&mut self, text: &str, place: PrintPosition) {
        // Only outside containers do the pieces need parentheses to be one value.
        let parens = usize::from(place.level == 0);
        let (indent, allowance) = (place.indent + parens, place.allowance + parens);
        let room = self.width.saturating_sub(indent);
        let lines = split_lines(text);
        let mut chunks = Vec::new();
        let mut repr = String::new();
        for (i, line) in lines.iter().enumerate() {
            let last = i + 1 == lines.len();
            repr = repr_str(line);
            let line_room = if last { room.saturating_sub(allowance) } else { room };
            if repr.chars().count() <= line_room {
                chunks.push(repr.clone());
            } else {
                let last_room = line_room;
                split_words(line, room, last_room, &mut chunks);
            }
        }
        if chunks.len() == 1 {
            return self.out.push_str(&repr);
        }
        self.chunks(&chunks, indent, parens == 1);
    }

    fn bytes(&mut self, bytes: &[u8], place: PrintPosition) {
        let parens = usize::from(place.level == 0);
        let (indent, allowance) = (place.indent + parens, place.allowance + parens);
        let room = self.width.saturating_sub(indent);
        let mut chunks = Vec::new();
        let mut current: Vec<u8> = Vec::new();
        // Python splits bytes into groups of four; the last group leaves room for the following
        // text.
        let last = bytes.len() / 4 * 4;
        for (i, part) in bytes.chunks(4).enumerate() {
            let room = if i * 4 == last { room.saturating_sub(allowance) } else { room };
            let candidate = [&current[..], part].concat();
            if repr_bytes(&candidate).len() > room {
                if !current.is_empty() {
                    chunks.push(repr_bytes(&current));
                }
                current = part.to_vec();
            } else {
                current = candidate;
            }
        }
        if !current.is_empty() {
            chunks.push(repr_bytes(&current));
        }
        self.chunks(&chunks, indent, parens == 1);
    }

    fn chunks(&mut self, chunks: &[String], indent: usize, parens: bool) {
        self.out.push_str(if parens { "(" } else { "" });
        for (i, chunk) in chunks.iter().enumerate() {
            if i > 0 {
                self.new_line(indent);
            }
            self.out.push_str(chunk);
        }
        self.out.push_str(if parens { ")" } else { "" });
    }

    fn new_line(&mut self, indent: usize) {
        self.out.push('\n');
        self.out.extend(std::iter::repeat_n(' ', indent));
    }
}

/// Packs the words of a line into literals of at most `room` columns, the last of `last_room`.
fn split_words(line: &str, room: usize, last_room: usize, chunks: &mut Vec<String>) {
    let words = words(line);
    let mut current = String::new();
    for (i, word) in words.iter().enumerate() {
        let room = if i + 1 == words.len() { last_room } else { room };
        let candidate = format!("{current}{word}");
        if repr_str(&candidate).chars().count() > room {
            if !current.is_empty() {
                chunks.push(repr_str(&current));
            }
            current = (*word).to_string();
        } else {
            current = candidate;
        }
    }
    if !current.is_empty() {
        chunks.push(repr_str(&current));
    }
}

/// `re.findall(r'\S*\s*', line)` without the empty match at the end.
fn words(line: &str) -> Vec<&str> {
    let mut words = Vec::new();
    let mut rest = line;
    while !rest.is_empty() {
        let blanks = rest.find(is_space).unwrap_or(rest.len());
        let end =
            rest[blanks..].find(|c| !is_space(c)).map_or(rest.len(), |length| blanks + length);
        let (word, after) = rest.split_at(end);
        words.push(word);
        rest = after;
    }
    words
}

fn is_space(c: char) -> bool {
    c.is_whitespace() || ('\x1c'..='\x1f').contains(&c)
}

/// Python's `str.splitlines(keepends=True)`.
fn split_lines(text: &str) -> Vec<&str> {
    const BREAKS: [char; 10] =
        ['\n', '\r', '\x0b', '\x0c', '\x1c', '\x1d', '\x1e', '\u{85}', '\u{2028}', '\u{2029}'];
    let mut lines = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find(BREAKS) {
        let length = match rest[at..].starts_with("\r\n") {
            true => 2,
            false => rest[at..].chars().next().map_or(0, char::len_utf8),
        };
        let (line, after) = rest.split_at(at + length);
        lines.push(line);
        rest = after;
    }
    if !rest.is_empty() {
        lines.push(rest);
    }
    lines
}

/// The value with all its dicts sorted by key.
fn sorted(value: &Value) -> Value {
    let all = |items: &[Value]| items.iter().map(sorted).collect();
    let kind = match &value.kind {
        ValueKind::List(items) => ValueKind::List(all(items)),
        ValueKind::Tuple(items) => ValueKind::Tuple(all(items)),
        ValueKind::Dict(entries) => {
            let mut entries: Vec<_> =
                entries.iter().map(|(key, value)| (sorted(key), sorted(value))).collect();
            entries.sort_by(|(a, _), (b, _)| compare(a, b));
            ValueKind::Dict(entries)
        }
        kind => kind.clone(),
    };
    Value { kind, span: value.span }
}

/// Compares values in Python's order within a type, and by type name otherwise; numbers are one
/// type. References have no order and stay as they are.
fn compare(a: &Value, b: &Value) -> std::cmp::Ordering {
    use ValueKind::{Bytes, Str, Tuple};
    use std::cmp::Ordering;
    match (&a.kind, &b.kind) {
        (Str(a), Str(b)) => a.cmp(b),
        (Bytes(a), Bytes(b)) => a.cmp(b),
        (Tuple(a), Tuple(b)) => {
            let unequal = a.iter().zip(b).map(|(a, b)| compare(a, b)).find(|o| o.is_ne());
            unequal.unwrap_or_else(|| a.len().cmp(&b.len()))
        }
        (a, b) => match (number(a), number(b)) {
            (Some(a), Some(b)) => a.partial_cmp(&b).unwrap_or(Ordering::Equal),
            _ => type_rank(a).cmp(&type_rank(b)),
        },
    }
}

fn number(kind: &ValueKind) -> Option<f64> {
    match kind {
        ValueKind::Bool(value) => Some(f64::from(*value)),
        ValueKind::Int(value) => value.to_f64(),
        ValueKind::Float(value) => Some(*value),
        _ => None,
    }
}

/// The order of Python's type names: `NoneType`, `bytes`, numbers, `ConfigurableReference`, ...
fn type_rank(kind: &ValueKind) -> u8 {
    match kind {
        ValueKind::None => 0,
        ValueKind::Bytes(_) => 1,
        ValueKind::Complex(..) => 2,
        ValueKind::Bool(_) | ValueKind::Int(_) | ValueKind::Float(_) => 3,
        ValueKind::Reference(_) | ValueKind::Macro(_) | ValueKind::Computed(_) => 4,
        ValueKind::Str(_) => 5,
        ValueKind::Tuple(_) => 6,
        ValueKind::Dict(_) | ValueKind::List(_) => 7,
    }
}
