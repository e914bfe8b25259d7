//! The context of a completion, found from the text alone, since an incomplete line is no gin yet.

use crate::gin::{Line, lines};

/// The kind of text that may stand at the cursor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Context<'t> {
    /// A statement: a key, `include`, `import`. A macro may be defined.
    Statement,
    /// An argument of the block of this selector.
    Argument(&'t str),
    /// A value of this key, nothing typed yet or a word; for a block's line the key is
    /// `selector.argument`.
    Value(String),
    /// The inside of a text, bound to this key.
    Text(String),
    /// A configurable, after `@`.
    Reference,
    /// A macro, after `%` or where a value is computed.
    Macro,
    /// The path of an include, inside its quotes.
    IncludePath,
    /// A module, after `import` or `from`.
    Module,
    /// A name to import from this module.
    Member(&'t str),
}

/// A context and the typed part of the name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Typed<'t> {
    /// The kind of text that may stand there.
    pub context: Context<'t>,
    /// The word before the cursor, which a completion replaces: it ends at the cursor.
    pub word: &'t str,
}

/// Returns the context at a byte of a text; `None` if nothing can be completed there.
pub fn context(text: &str, offset: usize) -> Option<Typed<'_>> {
    let all = lines(text);
    let before = all.partition_point(|line| line.start <= offset);
    let (earlier, line) = match all[..before].split_last() {
        Some((line, earlier)) if goes_on(text, line, offset) => (earlier, Some(line)),
        _ => (&all[..before], None),
    };
    let start = line.map_or(offset, |line| line.start);
    let column = match line {
        Some(line) => line.column,
        None => indentation(text, offset)?,
    };
    let typed = &text[start..offset];
    let state = scan(typed);
    if state.in_comment {
        return None;
    }
    let head = head_of_block(text, earlier, column);
    let place = |context, word| Some(Typed { context, word });
    if head.is_none()
        && let Some(rest) = typed.strip_prefix("include").filter(|rest| !continues(rest))
    {
        let quote = state.string?;
        return place(Context::IncludePath, &rest[quote - "include".len() + 1..]);
    }
    if head.is_none()
        && let Some(found) = import(typed)
    {
        return Some(found);
    }
    match state.equals {
        Some(equals) => value(typed, equals, head, &state),
        None if typed.contains([' ', '\t', '(', ':', '"', '\'', '@', '%']) => None,
        None => {
            let word = &typed[typed.rfind('/').map_or(0, |at| at + 1)..];
            place(head.map_or(Context::Statement, Context::Argument), word)
        }
    }
}

/// Whether the cursor is on the line: no new line begins before it, unless inside brackets.
fn goes_on(text: &str, line: &Line, offset: usize) -> bool {
    let rest = &text[line.end.min(offset)..offset];
    !rest.contains(['\n', '\r']) || scan(&text[line.start..offset]).in_brackets
}

/// The column of an empty line's cursor; `None` behind a comment.
fn indentation(text: &str, offset: usize) -> Option<usize> {
    let start = text[..offset].rfind(['\n', '\r']).map_or(0, |at| at + 1);
    let before = &text[start..offset];
    before.chars().all(|c| [' ', '\t'].contains(&c)).then_some(before.len())
}

/// Whether the word before continues in `rest`.
fn continues(rest: &str) -> bool {
    rest.starts_with(|c: char| c.is_alphanumeric() || "_./=:".contains(c))
}

/// Returns the selector of the block that contains a line of this column.
fn head_of_block<'t>(text: &'t str, earlier: &[Line], column: usize) -> Option<&'t str> {
    let outer = earlier.iter().rev().find(|line| line.column < column)?;
    text[outer.start..outer.end].strip_suffix(':').map(str::trim_end)
}

/// The state of a partly typed line.
#[derive(Debug, Default)]
struct State {
    in_comment: bool,
    /// The opening quote of the string at the cursor.
    string: Option<usize>,
    /// Whether that string has the prefix `f`, and an open brace.
    in_braces: bool,
    /// The first `=` outside brackets and strings.
    equals: Option<usize>,
    in_brackets: bool,
    /// Whether the cursor is inside `%(`.
    computes: bool,
}

fn scan(typed: &str) -> State {
    let bytes = typed.as_bytes();
    let mut state = State::default();
    let mut brackets = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        match bytes[at] {
            b'#' => match typed[at..].find(['\n', '\r']) {
                Some(length) => at += length,
                None => return State { in_comment: true, ..state },
            },
            b'\'' | b'"' => match string_end(typed, at) {
                Some(end) => {
                    at = end;
                    continue;
                }
                None => {
                    state.string = Some(at);
                    let prefix = typed[..at].trim_end_matches(['r', 'R']);
                    let inside = &typed[at..];
                    let open = inside.rfind('{') > inside.rfind('}');
                    state.in_braces = prefix.ends_with(['f', 'F']) && open;
                    break;
                }
            },
            b'(' | b'[' | b'{' => brackets.push(at > 0 && bytes[at - 1] == b'%'),
            b')' | b']' | b'}' => {
                brackets.pop();
            }
            b'=' if brackets.is_empty() && state.equals.is_none() => state.equals = Some(at),
            _ => {}
        }
        at += 1;
    }
    state.in_brackets = !brackets.is_empty();
    state.computes = brackets.contains(&true);
    state
}

/// Returns the offset after the quotes that close the string which starts at `at`.
fn string_end(typed: &str, at: usize) -> Option<usize> {
    let quote = &typed[at..at + 1];
    let triple = quote.repeat(3);
    let quotes = if typed[at..].starts_with(&triple) { triple.as_str() } else { quote };
    let mut inside = at + quotes.len();
    while inside < typed.len() {
        if typed.as_bytes()[inside] == b'\\' {
            inside += 2;
        } else if typed.as_bytes()[inside..].starts_with(quotes.as_bytes()) {
            return Some(inside + quotes.len());
        } else {
            inside += 1;
        }
    }
    None
}

/// Returns the context of a value, after the `=`.
fn value<'t>(
    typed: &'t str,
    equals: usize,
    head: Option<&str>,
    state: &State,
) -> Option<Typed<'t>> {
    let key = typed[..equals].trim();
    let key = head.map_or(key.to_string(), |head| format!("{head}.{key}"));
    let is_part = |c: char| c.is_alphanumeric() || "_./".contains(c);
    let word = &typed[typed.trim_end_matches(is_part).len()..];
    let name = &word[word.rfind('/').map_or(0, |at| at + 1)..];
    let place = |context, word| Some(Typed { context, word });
    match state.string {
        Some(_) if state.in_braces => return place(Context::Macro, name),
        Some(quote) => return place(Context::Text(key), &typed[quote + 1..]),
        None => {}
    }
    match typed[equals + 1..].strip_suffix(word)?.chars().next_back() {
        Some('@') => place(Context::Reference, name),
        Some('%') => place(Context::Macro, name),
        _ if state.computes => place(Context::Macro, name),
        _ => place(Context::Value(key), word),
    }
}

/// Returns the context in `import a.b`, `from a import b`.
fn import(typed: &str) -> Option<Typed<'_>> {
    let words: Vec<&str> = typed.split([' ', '\t']).filter(|word| !word.is_empty()).collect();
    let ended = typed.ends_with([' ', '\t']);
    let last = if ended { "" } else { words.last()? };
    let context = match words[..] {
        ["import" | "from"] if ended => Context::Module,
        ["import" | "from", _] if !ended => Context::Module,
        ["from", module, "import"] if ended => Context::Member(module),
        ["from", module, "import", _] if !ended => Context::Member(module),
        _ => return None,
    };
    Some(Typed { context, word: last })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `|` is the cursor.
    #[track_caller]
    fn check(text: &str, expected: Option<(Context<'_>, &str)>) {
        let offset = text.find('|').expect("marked");
        let text = text.replacen('|', "", 1);
        let found = context(&text, offset);
        let found = found.map(|typed| (format!("{:?}", typed.context), typed.word.to_string()));
        let expected = expected.map(|(context, word)| (format!("{context:?}"), word.to_string()));
        assert_eq!(found, expected, "{text}");
    }

    #[test]
    fn keys() {
        use Context::{Argument, Statement};
        check("|", Some((Statement, "")));
        check("a = 1\n|", Some((Statement, "")));
        check("train/utils.Da|", Some((Statement, "utils.Da")));
        check("a/f:\n  b|", Some((Argument("a/f"), "b")));
        check("f:\n  a = 1\n\n  |\ng = 2", Some((Argument("f"), "")));
        check("f:\n  a = [\n    1,\n  ]\n  b|", Some((Argument("f"), "b")));
        check("f:\n  a = 1\nb|", Some((Statement, "b")));
        check("f.a |", None);
        check("# x|", None);
        check("a = 1  # x|", None);
    }

    #[test]
    fn values() {
        use Context::{Macro, Reference, Text, Value};
        let key = |key: &str| key.to_string();
        check("a.b = |", Some((Value(key("a.b")), "")));
        check("f:\n  b = Tr|", Some((Value(key("f.b")), "Tr")));
        check("a = @|", Some((Reference, "")));
        check("a = [@x(), @s/uti|", Some((Reference, "uti")));
        check("a = {'k': %AB|", Some((Macro, "AB")));
        check("a = %(AB * C|", Some((Macro, "C")));
        check("a = f'x{A|'", Some((Macro, "A")));
        check("a = f'x{A}|'", Some((Text(key("a")), "x{A}")));
        check("A = \"quick_|\"", Some((Text(key("A")), "quick_")));
        check("A = 'it\\'s|", Some((Text(key("A")), "it\\'s")));
        check("A = [\n  'a',\n  'é|", Some((Text(key("A")), "é")));
        check("A = [\n  1,\n  |", Some((Value(key("A")), "")));
        check("A = 'x' |", Some((Value(key("A")), "")));
    }

    #[test]
    fn includes_and_imports() {
        use Context::{IncludePath, Member, Module, Statement};
        check("include \"t5x/|\"", Some((IncludePath, "t5x/")));
        check("include '|", Some((IncludePath, "")));
        check("include |", None);
        check("inclu|", Some((Statement, "inclu")));
        check("import |", Some((Module, "")));
        check("from t5x|", Some((Module, "t5x")));
        check("from t5x import |", Some((Member("t5x"), "")));
        check("from t5x import ut|", Some((Member("t5x"), "ut")));
        check("import a as |", None);
    }

    #[test]
    fn no_text_and_no_place_is_too_strange() {
        let texts =
            ["f:\r\n\t'''é\\", "=%(@[\n}", "include", "a\\\n = '𝒳", "\u{feff}import \0", "f'{"];
        for text in texts {
            for offset in (0..=text.len()).filter(|at| text.is_char_boundary(*at)) {
                context(text, offset);
            }
        }
    }
}
