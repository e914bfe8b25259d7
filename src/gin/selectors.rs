//! The names by which a file may use each configurable; editors propose them.
//!
//! With dynamic registration, a file uses its imports, and other configurables are proposed with
//! the import that they need. Without it, the name is the shortest unique suffix.

use super::ast::Import;
use super::resolve::modules_of;
use super::schema::{Registry, Schema};

/// A name of a configurable that a file may use.
#[derive(Clone, Debug)]
pub struct Selector {
    /// The name as written: `utils.DatasetConfig`.
    pub text: String,
    /// The configurable that it means.
    pub schema: &'static Schema,
    /// The statement that the file needs first, if any.
    pub import: Option<String>,
}

/// The module whose import turns dynamic registration on.
const DYNAMIC_REGISTRATION: &str = "__gin__.dynamic_registration";

/// A name for each configurable, in a file with these imports.
pub fn selectors(imports: &[Import], registry: &Registry) -> Vec<Selector> {
    if !imports.iter().any(|import| import.module == DYNAMIC_REGISTRATION) {
        let shortest = |schema| Selector {
            text: registry.minimal_selector(schema).to_string(),
            schema,
            import: None,
        };
        return registry.iter().map(shortest).collect();
    }
    let named = |schema| through(imports, schema, registry).or_else(|| imported(schema, registry));
    registry.iter().filter_map(named).collect()
}

/// The shortest name that the file's imports give.
fn through(imports: &[Import], schema: &'static Schema, registry: &Registry) -> Option<Selector> {
    let texts = imports.iter().flat_map(|import| {
        let (name, _) = import.binding();
        modules_of(import, registry).into_iter().flat_map(move |module| {
            let inside = move |full: &'static str| full.strip_prefix(&module)?.strip_prefix('.');
            let rests: Vec<&str> = schema.names().filter_map(inside).collect();
            rests.into_iter().map(move |rest| format!("{name}.{rest}"))
        })
    });
    let text = texts.min_by_key(String::len)?;
    Some(Selector { text, schema, import: None })
}

/// Returns the name after one more import; gin's own configurables need none.
fn imported(schema: &'static Schema, registry: &Registry) -> Option<Selector> {
    if schema.name.starts_with("gin.") {
        return Some(Selector { text: schema.name.to_string(), schema, import: None });
    }
    let parts = if registry.is_method(schema) { 2 } else { 1 };
    let (dot, _) = schema.name.rmatch_indices('.').nth(parts - 1)?;
    let (module, rest) = (&schema.name[..dot], &schema.name[dot..]);
    let (import, name) = match module.rsplit_once('.') {
        Some((package, name)) => (format!("from {package} import {name}"), name),
        None => (format!("import {module}"), module),
    };
    Some(Selector { text: format!("{name}{rest}"), schema, import: Some(import) })
}
