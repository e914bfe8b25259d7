//! Mistakes of whole lines: statements and blocks.

use super::super::diagnostic::Diagnostic;
use super::super::repr::repr_str;
use super::super::source::Span;
use super::super::syntax::{Excerpt, Key};
use super::{end_of_line, first_char, first_word, malformed_path, semicolon, unexpected, unusual};

pub(crate) fn byte_order_mark(span: Span) -> Diagnostic {
    Diagnostic::error(span, "the file starts with a byte order mark, which gin refuses")
        .help("save it as UTF-8 without BOM")
}

pub(crate) fn binary(span: Span) -> Diagnostic {
    Diagnostic::error(span, "this is not a gin file: it holds a NUL character")
        .help("gin files are text in UTF-8")
}

pub(crate) fn not_a_statement(line: Excerpt<'_>) -> Diagnostic {
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
pub(crate) fn unfinished(key: &Key, rest: Excerpt<'_>) -> Diagnostic {
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
        Some('(') => Diagnostic::error(key.span, "a call is not a statement")
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

fn bad_include(key: &Key, rest: Excerpt<'_>) -> Diagnostic {
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

pub(crate) fn include_of_bytes(path: Excerpt<'_>) -> Diagnostic {
    Diagnostic::error(path.span, "the path of an include is text, not bytes")
        .help("drop the prefix `b`")
}

pub(crate) fn after_include(rest: Excerpt<'_>) -> Diagnostic {
    end_of_line(rest).help("an include is a plain path in quotes and nothing else")
}

pub(crate) fn after_import(rest: Excerpt<'_>, whole: Excerpt<'_>) -> Diagnostic {
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

pub(crate) fn after_header(rest: Excerpt<'_>, key: &Key) -> Diagnostic {
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

pub(crate) fn second_line(span: Span) -> Diagnostic {
    Diagnostic::error(span, "expected a single value").label("found another line")
}

// ---- blocks

pub(crate) fn empty_block(header: Span, selector: &str) -> Diagnostic {
    Diagnostic::error(header, format!("the block `{selector}:` has no lines"))
        .label("expected indented lines below")
        .help("indent its arguments: `  argument = value`")
}

pub(crate) fn nested_block(span: Span) -> Diagnostic {
    Diagnostic::error(span, "blocks do not nest")
        .label("a block inside a block")
        .help("start this line in the column of the block above it")
}

pub(crate) fn not_in_block(span: Span, what: &str) -> Diagnostic {
    Diagnostic::error(span, format!("{what} cannot stand inside a block"))
        .help("move it out of the block")
}

pub(crate) fn over_indented(at: Span, tabs: bool) -> Diagnostic {
    let error = Diagnostic::error(at, "this line is indented more than the block it is in");
    about_indentation(error, tabs)
}

pub(crate) fn misaligned(at: Span, tabs: bool) -> Diagnostic {
    let error = Diagnostic::error(at, "this line's indentation is not that of any line above it");
    about_indentation(error, tabs)
}

fn about_indentation(error: Diagnostic, tabs: bool) -> Diagnostic {
    let error = error.help("lines of one block start in the same column");
    if tabs { error.help("a tab counts up to the next multiple of eight columns") } else { error }
}
