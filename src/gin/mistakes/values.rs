//! Mistakes within values: literals, expressions, containers and strings.

use super::super::diagnostic::Diagnostic;
use super::super::repr::repr_str;
use super::super::source::Span;
use super::super::syntax::{Excerpt, Key};
use super::{
    end_of_line, first_char, first_word, malformed_path, semicolon, shortened, unexpected, unusual,
};

pub(crate) fn no_value(key: Option<&Key>, end: Span) -> Diagnostic {
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

/// Reports a text that stands in the place of the line's value.
pub(crate) fn not_a_value(found: Excerpt<'_>, key: Option<&Key>) -> Diagnostic {
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

/// Reports a text that stands in the place of a container's item.
pub(crate) fn not_an_item(found: Excerpt<'_>, key: Option<&Key>) -> Diagnostic {
    wrong_value(found, key, false)
}

fn wrong_value(found: Excerpt<'_>, key: Option<&Key>, whole: bool) -> Diagnostic {
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

fn bare_word(found: Excerpt<'_>, key: Option<&Key>, whole: bool) -> Diagnostic {
    let text = found.text;
    let meant = match text {
        "true" | "TRUE" => Some("True"),
        "false" | "FALSE" => Some("False"),
        "null" | "none" | "nil" | "NULL" | "NONE" => Some("None"),
        _ => None,
    };
    let error =
        Diagnostic::error(found.span, format!("`{}` is not a valid value", shortened(text)));
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
    if looks_like_macro(text) {
        return error.label(format!("did you mean `%{text}`?")).help(format!(
            "a macro is used as `%{text}`; a text needs quotes: `{}`",
            repr_str(text)
        ));
    }
    unquoted(error, text, key, whole)
}

/// Reports a text without its quotes, which the shell may have removed.
fn unquoted(error: Diagnostic, text: &str, key: Option<&Key>, whole: bool) -> Diagnostic {
    let mut error = error.label("did you forget the quotes?");
    let quoted = repr_str(text);
    let as_flag = match (key, item_of_dict(text)) {
        (Some(key), _) if !whole => Some(format!(
            "put texts in single quotes, and for the shell the whole value in double ones: \
             `--gin.{}=\"['a', 'b']\"`",
            key.text
        )),
        (Some(key), Some(item)) => Some(format!(
            "write `--gin.{}=\"{{{item}}}\"`: the shell eats braces and quotes that are not in \
             double quotes",
            key.text
        )),
        _ => None,
    };
    if let Some(help) = as_flag {
        error = error.flag_help(help);
    }
    match key.filter(|_| whole) {
        None => error.help(format!("write `{quoted}`")),
        Some(key) => {
            let error = error.help(format!("write `{} = {quoted}`", key.text));
            // Inside the shell's double quotes these characters have another meaning.
            match text.contains(['"', '$', '`', '\\', '\'', '!']) {
                true => error,
                false if error.flag_help.is_some() => error,
                false => error.flag_help(format!(
                    "write `--gin.{}=\"{quoted}\"`: the shell eats the outer quotes",
                    key.text
                )),
            }
        }
    }
}

/// Whether a text is probably a macro: macros are usually in capitals, and texts rarely are.
fn looks_like_macro(text: &str) -> bool {
    let of_macro = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
    text.len() > 1
        && text.starts_with(|c: char| c.is_ascii_uppercase())
        && text.chars().all(of_macro)
}

/// Returns `'key': value` for `key:value`, the rest that a shell leaves of an item of a dict.
fn item_of_dict(text: &str) -> Option<String> {
    let (key, value) = text.split_once(':')?;
    let is_name = |text: &str| text.chars().all(|c| c.is_alphanumeric() || c == '_');
    (!key.is_empty() && is_name(key) && value.parse::<f64>().is_ok())
        .then(|| format!("{}: {value}", repr_str(key)))
}

const PYTHON_TYPES: [&str; 9] =
    ["set", "dict", "list", "tuple", "int", "float", "str", "bool", "range"];

/// Returns `name` for `name(...)`.
fn called_name(text: &str) -> Option<&str> {
    let (name, _) = text.strip_suffix(')')?.split_once('(')?;
    let is_name = |c: char| c.is_alphanumeric() || c == '_' || c == '.';
    (!name.is_empty() && name.chars().all(is_name)).then_some(name)
}

fn bad_sign(found: Excerpt<'_>) -> Diagnostic {
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

/// Reports the text that follows the line's value.
pub(crate) fn after_value(value: Excerpt<'_>, rest: Excerpt<'_>, key: Option<&Key>) -> Diagnostic {
    let whole = value.span.to(rest.span);
    match rest.text.as_bytes()[0] {
        b',' => after_comma(value, rest, key),
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

/// Reports several values, or a number with separators.
fn after_comma(value: Excerpt<'_>, rest: Excerpt<'_>, key: Option<&Key>) -> Diagnostic {
    let groups = rest.text[1..].split(',');
    let is_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    // Lengths such as `512,114` are two numbers.
    let is_number = (groups.clone().count() > 1 || rest.text.ends_with("000"))
        && is_digits(value.text)
        && (1..=3).contains(&value.text.len())
        && groups.clone().all(|group| group.len() == 3 && is_digits(group));
    if is_number {
        let number = [value.text, &groups.collect::<String>()].concat();
        let error = Diagnostic::error(rest.prefix(1).span, "a number has no commas");
        return match key {
            Some(key) => error
                .help(format!("write `{} = {number}`", key.text))
                .flag_help(format!("write `--gin.{}={number}`", key.text)),
            None => error.help(format!("write `{number}`")),
        };
    }
    let error = Diagnostic::error(rest.prefix(1).span, "a tuple needs parentheses");
    let Some(key) = key else { return error };
    let (value, rest) = (shortened(value.text), shortened(rest.text));
    let error = error.help(format!("write `{} = ({value}{rest})`", key.text));
    match [&value, &rest].iter().any(|text| text.contains(['"', '$', '`', '\\', '!'])) {
        true => error,
        false => error.flag_help(format!("write `--gin.{}=\"({value}{rest})\"`", key.text)),
    }
}

/// Reports the text after a value inside a container that `closer` closes.
pub(crate) fn stray(value: Excerpt<'_>, rest: Excerpt<'_>, closer: char) -> Diagnostic {
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

/// Reports an attempt to compute a value.
fn expression(value: Excerpt<'_>, rest: Excerpt<'_>, whole: Span) -> Option<Diagnostic> {
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

/// Reports a text in `%( )` that cannot be computed.
pub(crate) fn bad_expression(found: Excerpt<'_>) -> Diagnostic {
    Diagnostic::error(found.span, "this cannot be computed")
        .label("expected numbers, macros and `+ - * / // %`")
        .help("write `%(A * 2)`, in which a name is a macro's; a text is `f'{A}/b'`")
}

pub(crate) fn call_arguments(arguments: Excerpt<'_>, selector: &str) -> Diagnostic {
    let name = arguments.text.split('=').next().unwrap_or_default().trim();
    let is_name = !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || c == '_');
    let argument = if is_name && arguments.text.contains('=') { name } else { "argument" };
    Diagnostic::error(arguments.span, "a reference is called without arguments")
        .help(format!("bind them: `{selector}.{argument} = ...`"))
}

// ---- containers

pub(crate) fn no_item(at: Excerpt<'_>) -> Diagnostic {
    let after = Span { end: at.span.start + 1, ..at.span };
    Diagnostic::error(after, "a value is missing before this").help("delete the extra separator")
}

pub(crate) fn no_entry_value(at: Excerpt<'_>) -> Diagnostic {
    Diagnostic::error(at.span, "an item of a dict is `key: value`").label("expected a value here")
}

pub(crate) fn colon_in_list(second: Span, container: Excerpt<'_>) -> Diagnostic {
    let what = if container.text.starts_with('[') { "a list" } else { "a tuple" };
    Diagnostic::error(second, format!("{what} has no `key: value` items"))
        .related(container.prefix(1).span, "opened here")
        .help("a dict is written with `{` and `}`")
}

pub(crate) fn set(container: Excerpt<'_>, item: Span) -> Diagnostic {
    Diagnostic::error(item, "an item of a dict is `key: value`")
        .label("expected `:` and a value after this")
        .related(container.prefix(1).span, "the dict starts here")
        .help("gin has no sets: write a list `[...]`")
}

pub(crate) fn second_colon(value: Span) -> Diagnostic {
    Diagnostic::error(value, "an item of a dict has one `:`")
        .label("a second value for one key")
        .help("is a comma missing before it?")
}

pub(crate) fn unhashable(key: Span, kind: &str) -> Diagnostic {
    Diagnostic::error(key, format!("{kind} cannot be the key of a dict"))
        .help("use a tuple `(...)`")
}

pub(crate) fn duplicate_key(first: Span, again: Span) -> Diagnostic {
    Diagnostic::error(again, "this key stands in the dict already; the last value counts")
        .label("again here")
        .related(first, "first here")
        .warning()
}

// ---- strings

pub(crate) fn mixed_strings(piece: Excerpt<'_>) -> Diagnostic {
    Diagnostic::error(piece.span, "text and bytes cannot be joined")
        .help("give all parts the prefix `b`, or none")
}

pub(crate) fn joined_strings(span: Span) -> Diagnostic {
    Diagnostic::error(span, "two strings without a comma between them are one item")
        .label("one item")
        .help("if two items are meant, write a comma; else join them into one string")
        .warning()
}
