//! A registry in which every name in some texts is known and takes any argument.

use super::ast::{Statement, StatementKind};
use super::parse::parse;
use super::schema::{Registry, Schema};
use super::source::FileId;
use super::value::{Value, ValueKind};

/// Builds the registry for texts without schemas: each selector is its own full name.
pub fn untyped<'a>(texts: impl IntoIterator<Item = &'a str>) -> Registry {
    let mut registry = Registry::of_another_project();
    // The texts do not show which names are classes.
    registry.without_methods = true;
    for text in texts {
        // Mistakes are reported when the text is loaded.
        for Statement { kind, .. } in parse(FileId(0), text).0 {
            match kind {
                StatementKind::Binding(target, argument) => {
                    declare(&target.selector, &mut registry);
                    declare_references(&argument.value, &mut registry);
                }
                StatementKind::Block(target, arguments) => {
                    declare(&target.selector, &mut registry);
                    for argument in arguments {
                        declare_references(&argument.value, &mut registry);
                    }
                }
                StatementKind::Macro(definition) => {
                    declare_references(&definition.value, &mut registry);
                }
                StatementKind::Import(_) | StatementKind::Include(_) => {}
            }
        }
    }
    registry
}

fn declare_references(value: &Value, registry: &mut Registry) {
    value.for_each(&mut |value| {
        if let ValueKind::Reference(reference) = &value.kind {
            declare(&reference.selector, registry);
        }
    });
}

fn declare(selector: &str, registry: &mut Registry) {
    let is_gins_own = ["macro", "gin.macro", "singleton"].contains(&selector);
    if is_gins_own || registry.get(selector).is_some() {
        return;
    }
    let name: &'static str = Box::leak(selector.to_string().into_boxed_str());
    registry.add(Box::leak(Box::new(Schema { name, takes_any: true, ..Schema::default() })));
}
