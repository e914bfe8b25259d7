//! Keys: from `scope/selector.arg` as written to the target that the key addresses.

use super::ast::{Argument, MacroDefinition, StatementKind, Target};
use super::diagnostic::Diagnostic;
use super::source::Span;
use super::syntax::{Key, split_scope};
use super::value::Value;

/// `key = value` outside a block: a binding if the key has a dot, else a macro.
pub(super) fn assignment(key: &Key, value: Value) -> Result<StatementKind, Diagnostic> {
    let (scope, name) = scope_and_name(key)?;
    let Some((selector, arg)) = name.rsplit_once('.') else {
        return Ok(StatementKind::Macro(MacroDefinition {
            path: key.text.clone(),
            span: key.span,
            value,
        }));
    };
    let arg_start = key.span.end - arg.len();
    let span = Span { start: arg_start, ..key.span };
    let argument = Argument { name: arg.to_string(), span, value };
    let selector_span = Span { start: key.span.end - name.len(), end: arg_start - 1, ..key.span };
    let target = Target { scope, selector: selector.to_string(), span: selector_span };
    Ok(StatementKind::Binding(target, argument))
}

/// `key:`, the head of a block.
pub(super) fn header(key: &Key) -> Result<Target, Diagnostic> {
    let (scope, selector) = scope_and_name(key)?;
    let span = Span { start: key.span.end - selector.len(), ..key.span };
    Ok(Target { scope, selector: selector.to_string(), span })
}

/// `key = value` inside a block: the key is the argument alone.
pub(super) fn argument(key: &Key, value: Value) -> Result<Argument, Diagnostic> {
    let name = &key.text;
    if name.contains(['.', '/']) {
        let arg = name.rsplit(['.', '/']).next().expect("split yields one part");
        let message = format!("inside a block, `{name}` must be an argument's name alone");
        return Err(Diagnostic::error(key.span, message).label("no dots and no scopes here").help(
            format!("write `{arg} = ...`, or end the block before this line by its indentation"),
        ));
    }
    Ok(Argument { name: name.clone(), span: key.span, value })
}

fn scope_and_name(key: &Key) -> Result<(Vec<String>, &str), Diagnostic> {
    let (scope, name) = split_scope(&key.text);
    if scope.iter().any(|part| part.contains('.')) {
        let length = key.text.len() - name.len() - 1;
        let span = Span { end: key.span.start + length, ..key.span };
        return Err(Diagnostic::error(span, "a scope has no dots in its name")
            .label("this is the scope, since a `/` follows")
            .help("a key is `scope/module.configurable.argument`"));
    }
    Ok((scope, name))
}
