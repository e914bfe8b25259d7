//! What users write that gin does not take: what to say about it, and what to write instead.

use super::diagnostic::Diagnostic;
use super::repr::repr_str;
use super::source::Span;
use super::syntax::{Key, Place};

/// Reading stops after so many mistakes, so that those of a large text do not fill the memory.
pub(super) const MAX_MISTAKES: usize = 1000;

// ---- whole lines

pub(super) fn byte_order_mark(span: Span) -> Diagnostic {
    Diagnostic::error(span, "the file starts with a byte order mark, which gin refuses")
        .help("save it as UTF-8 without BOM")
}

pub(super) fn binary(span: Span) -> Diagnostic {
    Diagnostic::error(span, "this is no gin file: it holds a NUL character")
        .help("gin files are text in UTF-8")
}

pub(super) fn not_a_statement(line: Place<'_>) -> Diagnostic {
    let first = first_char(line);
    let name =
        line.suffix(first.text.len()).text.split(|c: char| !c.is_alphanumeric() && c != '_').next();
    match (line.text.as_bytes()[0], name) {
        (b'%', Some(name)) => Diagnostic::error(first.span, "a macro is defined without `%`")
            .help(format!("write `{name} = ...`, and `%{name}` where it is used")),
        (b'@', _) => Diagnostic::error(first.span, "a statement does not start with `@`")
            .help("bind an argument: `configurable.argument = value`"),
        (b'-', _) if line.text.starts_with("--") => {
            Diagnostic::error(line.prefix(2).span, "a flag stands in gin text")
                .help("write the binding alone, without `--gin.`")
        }
        _ if unusual(first.text).is_some() => unexpected(first),
        _ => Diagnostic::error(first.span, "expected a statement")
            .label(format!("found `{}`", first.text))
            .help("a statement is `configurable.argument = value`, `MACRO = value`, `include 'path'` or `import module`"),
    }
}

/// A key that is followed by neither `=` nor `:`.
pub(super) fn unfinished(key: &Key, rest: Place<'_>) -> Diagnostic {
    match key.text.as_str() {
        "include" => return bad_include(key, rest),
        "import" | "from" => {
            return Diagnostic::error(key.span.to(rest.span), "malformed import")
                .help("write `import module.name`, or `from module import name`");
        }
        _ => {}
    }
    let end = Span { start: key.span.end, ..key.span };
    match rest.text.chars().next() {
        Some('+' | '-' | '*' | '|' | '%' | '/') if rest.text[1..].starts_with('=') => {
            Diagnostic::error(rest.prefix(2).span, format!("gin has no `{}`", &rest.text[..2]))
                .help("a binding replaces the whole value: `=`")
        }
        Some('.' | '/') => malformed_path(rest),
        Some('(') => Diagnostic::error(key.span, "calls are no statements")
            .help(format!("bind an argument: `{}.argument = value`", key.text)),
        Some(';') => semicolon(rest),
        Some(c) if unusual(&rest.text[..c.len_utf8()]).is_some() => unexpected(first_char(rest)),
        Some(_) => {
            let message = format!("expected `=` or `:` after `{}`", key.text);
            Diagnostic::error(first_word(rest).span, message)
                .label("the `=` is missing before this")
                .help(format!("write `{} = ...`", key.text))
        }
        None => Diagnostic::error(end, format!("expected `=` and a value after `{}`", key.text))
            .label("the line ends here")
            .help(format!("write `{} = ...`", key.text)),
    }
}

fn bad_include(key: &Key, rest: Place<'_>) -> Diagnostic {
    let span = if rest.text.is_empty() { key.span } else { rest.span };
    let error = Diagnostic::error(span, "`include` needs a path in quotes");
    match rest.text {
        "" => error.help("write `include 'path.gin'`"),
        path if path.starts_with(['%', '@', '(', '[']) => {
            error.help("the path is a plain string: no macro, no reference, no brackets")
        }
        path => error.help(format!("write `include {}`", repr_str(path))),
    }
}

pub(super) fn include_of_bytes(path: Place<'_>) -> Diagnostic {
    Diagnostic::error(path.span, "the path of an include is text, not bytes")
        .help("drop the prefix `b`")
}

pub(super) fn after_include(rest: Place<'_>) -> Diagnostic {
    end_of_line(rest).help("an include is a plain path in quotes and nothing else")
}

pub(super) fn after_import(rest: Place<'_>, whole: Place<'_>) -> Diagnostic {
    match rest.text.as_bytes()[0] {
        b',' => Diagnostic::error(rest.span, "one import names one thing")
            .help("write an import of its own for each, on a line of its own"),
        b'.' => malformed_path(rest),
        b';' => semicolon(rest),
        _ if whole.text.starts_with("from") => end_of_line(rest)
            .help("an import is `from module import name` or `from module import name as other`"),
        _ => end_of_line(rest).help("an import is `import module` or `import module as name`"),
    }
}

pub(super) fn after_header(rest: Place<'_>, key: &Key) -> Diagnostic {
    if rest.text.starts_with('=') {
        return Diagnostic::error(rest.prefix(1).span, "gin has no `:=`")
            .help(format!("write `{} = ...`", key.text));
    }
    if rest.text.contains('=') {
        return Diagnostic::error(rest.span, "expected a new line after `:`")
            .label("found this")
            .help("a block's arguments stand below its head, indented; types are never written");
    }
    Diagnostic::error(rest.span, "expected a new line after `:`")
        .label("found this")
        .help(format!("to bind a value, write `{} = {}`", key.text, rest.text))
}

pub(super) fn second_line(span: Span) -> Diagnostic {
    Diagnostic::error(span, "expected a single value").label("found another line")
}

// ---- blocks

pub(super) fn empty_block(header: Span, selector: &str) -> Diagnostic {
    Diagnostic::error(header, format!("the block `{selector}:` has no lines"))
        .label("expected indented lines below")
        .help("indent its arguments: `  argument = value`")
}

pub(super) fn nested_block(span: Span) -> Diagnostic {
    Diagnostic::error(span, "blocks do not nest")
        .label("a block inside a block")
        .help("start this line in the column of the block above it")
}

pub(super) fn not_in_block(span: Span, what: &str) -> Diagnostic {
    Diagnostic::error(span, format!("{what} cannot stand inside a block"))
        .help("move it out of the block")
}

pub(super) fn over_indented(at: Span, tabs: bool) -> Diagnostic {
    let error = Diagnostic::error(at, "this line is indented more than the block it is in");
    about_indentation(error, tabs)
}

pub(super) fn misaligned(at: Span, tabs: bool) -> Diagnostic {
    let error = Diagnostic::error(at, "this line's indentation is that of no line above it");
    about_indentation(error, tabs)
}

fn about_indentation(error: Diagnostic, tabs: bool) -> Diagnostic {
    let error = error.help("lines of one block start in the same column");
    if tabs { error.help("a tab counts up to the next multiple of eight columns") } else { error }
}

// ---- values

pub(super) fn no_value(key: Option<&Key>, end: Span) -> Diagnostic {
    let error =
        Diagnostic::error(Span { start: end.start, end: end.end, ..end }, "a value is missing");
    match key {
        Some(key) => error
            .label("expected a value here")
            .help(format!("write `{} = value` on one line; brackets may span lines", key.text))
            .flag_help(format!("write `--gin.{}=VALUE`; an empty text is `\"''\"`", key.text)),
        None => error
            .help("a value is a number, a text in quotes, a container, `@reference` or `%MACRO`"),
    }
}

/// What stands where the line's value should.
pub(super) fn not_a_value(found: Place<'_>, key: Option<&Key>) -> Diagnostic {
    if found.text.starts_with('=') {
        return Diagnostic::error(found.prefix(1).span, "gin has no `==`")
            .help("a binding has one `=`");
    }
    if let Some(at) = found.text.find(" = ").filter(|_| !found.text.contains(['\'', '"'])) {
        return Diagnostic::error(found.suffix(at + 1).prefix(1).span, "one statement has one `=`")
            .help("write each binding on a line of its own");
    }
    wrong_value(found, key, true)
}

/// What stands where a container's item should.
pub(super) fn not_an_item(found: Place<'_>, key: Option<&Key>) -> Diagnostic {
    wrong_value(found, key, false)
}

fn wrong_value(found: Place<'_>, key: Option<&Key>, whole: bool) -> Diagnostic {
    let text = found.text;
    let first = first_char(found);
    let error = |message: &str| Diagnostic::error(first.span, message);
    match text.as_bytes()[0] {
        b'-' | b'+' => bad_sign(found),
        b'@' => error("`@` needs a name").help("write `@configurable` or `@scope/configurable()`"),
        b'%' => error("`%` needs a name").help("write `%MACRO`"),
        b',' | b';' | b':' | b'*' | b'=' | b'!' | b'<' | b'>' | b'|' | b'&' | b'^' => {
            error("expected a value").label(format!("found `{}`", first.text))
        }
        _ if unusual(first.text).is_some() => unexpected(first),
        _ => bare_word(found, key, whole),
    }
}

fn bare_word(found: Place<'_>, key: Option<&Key>, whole: bool) -> Diagnostic {
    let text = found.text;
    let meant = match text {
        "true" | "TRUE" => Some("True"),
        "false" | "FALSE" => Some("False"),
        "null" | "none" | "nil" | "NULL" | "NONE" => Some("None"),
        _ => None,
    };
    let error = Diagnostic::error(found.span, format!("`{}` is no value", shortened(text)));
    if let Some(meant) = meant {
        return error.label(format!("did you mean `{meant}`?"));
    }
    if matches!(text, "inf" | "nan") {
        return error.help("infinity is written `1e999`; there is no literal for nan");
    }
    if let Some(name) = called_name(text) {
        return match PYTHON_TYPES.contains(&name) {
            true => error.help("gin has no Python built-ins: write a literal"),
            false => error
                .help(format!("to call a configurable, write `@{name}()` and bind its arguments")),
        };
    }
    let error = error.label("did you forget the quotes?");
    let quoted = repr_str(text);
    match key.filter(|_| whole) {
        None => error.help(format!("write `{quoted}`")),
        Some(key) => {
            let error = error.help(format!("write `{} = {quoted}`", key.text));
            // Inside the shell's double quotes these mean something else.
            match text.contains(['"', '$', '`', '\\', '\'', '!']) {
                true => error,
                false => error.flag_help(format!(
                    "write `--gin.{}=\"{quoted}\"`: the shell eats the outer quotes",
                    key.text
                )),
            }
        }
    }
}

const PYTHON_TYPES: [&str; 9] =
    ["set", "dict", "list", "tuple", "int", "float", "str", "bool", "range"];

/// `name` of `name(...)`.
fn called_name(text: &str) -> Option<&str> {
    let (name, _) = text.strip_suffix(')')?.split_once('(')?;
    let is_name = |c: char| c.is_alphanumeric() || c == '_' || c == '.';
    (!name.is_empty() && name.chars().all(is_name)).then_some(name)
}

fn bad_sign(found: Place<'_>) -> Diagnostic {
    let sign = first_char(found);
    let rest = found.text[1..].trim_start();
    let error = |message: &str| Diagnostic::error(sign.span, message);
    match (sign.text, rest.chars().next()) {
        ("-", Some('%' | '@')) => {
            let what = if rest.starts_with('%') { "a macro" } else { "a reference" };
            error(&format!("a minus sign cannot stand before {what}"))
                .label("gin-config drops this sign without a word")
                .help("bind the negative number itself, or compute it: `%(-NAME)`")
        }
        ("+", Some(c)) if c.is_ascii_digit() || c == '.' => {
            error("a number has no plus sign").help("delete it")
        }
        ("-", Some('-' | '+')) => error("a number has one minus sign at most"),
        ("-", None) => error("a number is missing after the minus sign"),
        (sign, _) => {
            error(&format!("`{sign}` cannot stand here")).label("a sign stands before numbers only")
        }
    }
}

/// What follows the line's value.
pub(super) fn after_value(value: Place<'_>, rest: Place<'_>, key: Option<&Key>) -> Diagnostic {
    let whole = value.span.to(rest.span);
    match rest.text.as_bytes()[0] {
        b',' => {
            let error = Diagnostic::error(rest.prefix(1).span, "a tuple needs parentheses");
            match key {
                Some(key) => error.help(format!(
                    "write `{} = ({}{})`",
                    key.text,
                    shortened(value.text),
                    shortened(rest.text)
                )),
                None => error,
            }
        }
        b'=' => Diagnostic::error(rest.prefix(1).span, "one statement has one `=`")
            .help("write each binding on a line of its own"),
        b';' => semicolon(rest),
        _ => expression(value, rest, whole).unwrap_or_else(|| {
            let error = end_of_line(rest);
            match rest.text.contains('=') {
                true => error.help("write each statement on a line of its own"),
                false => error,
            }
        }),
    }
}

/// What follows a value inside a container that `closer` closes.
pub(super) fn stray(value: Place<'_>, rest: Place<'_>, closer: char) -> Diagnostic {
    expression(value, rest, value.span.to(rest.span)).unwrap_or_else(|| {
        let found = first_word(rest);
        let help = match (closer, found.text.starts_with('=')) {
            ('}', true) => "an item of a dict is `key: value`",
            _ => "is a comma missing before it?",
        };
        Diagnostic::error(found.span, format!("expected `,` or `{closer}`"))
            .label(format!("found `{}`", shortened(found.text)))
            .help(help)
    })
}

/// The user tried to compute something.
fn expression(value: Place<'_>, rest: Place<'_>, whole: Span) -> Option<Diagnostic> {
    let is_reference = value.text.starts_with(['@', '%']);
    let word = rest.text.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
    match rest.text.chars().next()? {
        '.' if is_reference && !value.text.ends_with(')') => Some(malformed_path(rest)),
        '/' if is_reference && !value.text.ends_with(')') && !rest.text[1..].starts_with(' ') => {
            Some(malformed_path(rest))
        }
        '.' if is_reference => Some(
            Diagnostic::error(rest.span, "a reference has no attributes")
                .help("refer to a configurable that yields the part you need"),
        ),
        '(' if is_reference => {
            Some(Diagnostic::error(rest.span, "a reference is called once at most"))
        }
        '[' => {
            Some(Diagnostic::error(rest.span, "gin has no indexing").help("write the item itself"))
        }
        '+' | '-' | '*' | '/' | '%' | '|' | '&' | '^' | '<' | '>' | '!' => {
            Some(no_expressions(whole))
        }
        _ if ["if", "and", "or", "in", "is", "not", "for"].contains(&word) => {
            Some(no_expressions(whole))
        }
        c if unusual(&rest.text[..c.len_utf8()]).is_some() => Some(unexpected(first_char(rest))),
        _ => None,
    }
}

fn no_expressions(whole: Span) -> Diagnostic {
    Diagnostic::error(whole, "an expression stands in `%( )`")
        .label("nothing is computed here")
        .help("write `%(A * 2)`, in which a name is a macro's, or `f'{A}/b'` for a text")
}

/// What stands in `%( )` and cannot be computed.
pub(super) fn bad_expression(found: Place<'_>) -> Diagnostic {
    Diagnostic::error(found.span, "this cannot be computed")
        .label("expected numbers, macros and `+ - * / // %`")
        .help("write `%(A * 2)`, in which a name is a macro's; a text is `f'{A}/b'`")
}

pub(super) fn call_arguments(arguments: Place<'_>, selector: &str) -> Diagnostic {
    let name = arguments.text.split('=').next().unwrap_or_default().trim();
    let is_name = !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || c == '_');
    let argument = if is_name && arguments.text.contains('=') { name } else { "argument" };
    Diagnostic::error(arguments.span, "a reference is called without arguments")
        .help(format!("bind them: `{selector}.{argument} = ...`"))
}

// ---- containers

pub(super) fn no_item(at: Place<'_>) -> Diagnostic {
    let after = Span { end: at.span.start + 1, ..at.span };
    Diagnostic::error(after, "a value is missing before this").help("delete the extra separator")
}

pub(super) fn no_entry_value(at: Place<'_>) -> Diagnostic {
    Diagnostic::error(at.span, "an item of a dict is `key: value`").label("expected a value here")
}

pub(super) fn colon_in_list(second: Span, container: Place<'_>) -> Diagnostic {
    let what = if container.text.starts_with('[') { "a list" } else { "a tuple" };
    Diagnostic::error(second, format!("{what} has no `key: value` items"))
        .related(container.prefix(1).span, "opened here")
        .help("a dict is written with `{` and `}`")
}

pub(super) fn set(container: Place<'_>, item: Span) -> Diagnostic {
    Diagnostic::error(item, "an item of a dict is `key: value`")
        .label("expected `:` and a value after this")
        .related(container.prefix(1).span, "the dict starts here")
        .help("gin has no sets: write a list `[...]`")
}

pub(super) fn second_colon(value: Span) -> Diagnostic {
    Diagnostic::error(value, "an item of a dict has one `:`")
        .label("a second value for one key")
        .help("is a comma missing before it?")
}

pub(super) fn unhashable(key: Span, kind: &str) -> Diagnostic {
    Diagnostic::error(key, format!("{kind} cannot be the key of a dict"))
        .help("use a tuple `(...)`")
}

pub(super) fn duplicate_key(first: Span, again: Span) -> Diagnostic {
    Diagnostic::error(again, "this key stands in the dict already; the last value counts")
        .label("again here")
        .related(first, "first here")
        .warning()
}

// ---- strings

pub(super) fn mixed_strings(piece: Place<'_>) -> Diagnostic {
    Diagnostic::error(piece.span, "text and bytes cannot be joined")
        .help("give all parts the prefix `b`, or none")
}

pub(super) fn joined_strings(span: Span) -> Diagnostic {
    Diagnostic::error(span, "two strings without a comma between them are one item")
        .label("one item")
        .help("if two items are meant, write a comma; else join them into one string")
        .warning()
}

// ---- characters

/// A character that gin text does not have outside strings.
pub(super) fn unexpected(found: Place<'_>) -> Diagnostic {
    let Some(c) = found.text.chars().next() else {
        return Diagnostic::error(found.span, "unexpected end of the statement");
    };
    let code = u32::from(c);
    let error = Diagnostic::error(
        found.span,
        match c.is_control() || c.is_whitespace() {
            true => format!("unexpected character U+{code:04X}"),
            false => format!("unexpected `{c}`"),
        },
    );
    match unusual(found.text) {
        Some(help) => error.help(help),
        None => error,
    }
}

/// What to do about a character that no statement has.
fn unusual(text: &str) -> Option<&'static str> {
    match text.chars().next()? {
        '“' | '”' | '‘' | '’' | '«' | '»' => Some("write straight quotes: `'` or `\"`"),
        '`' => Some("strings are written with `'` or `\"`"),
        '–' | '—' | '−' => Some("write the ASCII minus sign: `-`"),
        '\u{a0}' | '\u{2007}' | '\u{202f}' | '\u{3000}' => Some("write a plain space"),
        '\u{feff}' | '\u{200b}'..='\u{200f}' | '\u{2060}' => {
            Some("delete this invisible character")
        }
        '$' => Some("gin reads no shell variables: let the shell replace it, in double quotes"),
        '?' | '\\' => Some("delete it, or put the text in quotes"),
        c if c.is_control() => Some("delete this control character"),
        _ => None,
    }
}

fn malformed_path(rest: Place<'_>) -> Diagnostic {
    Diagnostic::error(first_char(rest).span, "malformed scope or selector")
        .label("expected a name on both sides, without spaces")
        .help("a path is `scope/module.name`")
}

fn semicolon(rest: Place<'_>) -> Diagnostic {
    Diagnostic::error(rest.prefix(1).span, "a `;` does not part statements")
        .help("write each statement on a line of its own")
}

fn end_of_line(rest: Place<'_>) -> Diagnostic {
    let found = first_word(rest);
    Diagnostic::error(found.span, format!("expected the end of the line, found `{}`", found.text))
}

fn first_char(place: Place<'_>) -> Place<'_> {
    place.prefix(place.text.chars().next().map_or(0, char::len_utf8))
}

fn first_word(place: Place<'_>) -> Place<'_> {
    let end = place.text.find(|c: char| c.is_whitespace() || c == ',').unwrap_or(place.text.len());
    place.prefix(end.max(first_char(place).text.len()).min(place.text.len()))
}

/// The text, cut to what fits in a message.
pub(super) fn shortened(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default();
    match line.char_indices().nth(40) {
        Some((end, _)) => format!("{}...", &line[..end]),
        None if line.len() < text.len() => format!("{line}..."),
        None => line.to_string(),
    }
}
