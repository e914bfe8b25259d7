//! The description of the thing under the cursor, in Markdown: its meaning, possible values,
//! current value and the place of the binding.

use std::fmt::Write;

use crate::gin::{
    Config, Evaluator, Fallback, Mention, Named, Param, Registry, Schema, Span, Value, ValueKind,
};

use super::analysis::{Analysis, Setting, binding_at, chain};
use super::diagnose::location;
use super::files::Files;

/// Longer values are cut.
const MAX_VALUE: usize = 400;

/// Returns the description.
pub fn hover(
    analysis: &Analysis,
    mention: &Mention,
    registry: &Registry,
    files: &Files,
) -> Option<String> {
    let config = analysis.table(mention);
    let page = Page { analysis, config, registry, files };
    match &mention.named {
        Named::Configurable(schema) => Some(page.configurable(schema, mention)),
        Named::Parameter(schema, name) => Some(page.parameter(schema, name, mention)),
        Named::MacroDefinition(_) | Named::MacroUse(_) => {
            Some(page.macro_value(analysis.macro_at(mention)?))
        }
        Named::File(name) => Some(format!("`{name}`")),
    }
}

struct Page<'a> {
    analysis: &'a Analysis,
    config: &'a Config,
    registry: &'a Registry,
    files: &'a Files,
}

impl Page<'_> {
    fn configurable(&self, schema: &'static Schema, mention: &Mention) -> String {
        let scope: Vec<String> =
            self.analysis.scope_at(mention).split('/').map(str::to_string).collect();
        let mut out = format!("**{}**\n\n{}\n", schema.name, schema.doc);
        for param in &schema.params {
            let _ = write!(out, "\n- `{}`: {}", param.name, described(param));
            if let Some(value) = self.config.bound(&scope, schema.name, param.name) {
                let _ = write!(out, "; now `{}`", shortened(value));
            }
        }
        if schema.takes_any {
            out.push_str("\n- any other argument");
        }
        out
    }

    fn parameter(&self, schema: &Schema, name: &str, mention: &Mention) -> String {
        let mut out = format!("**{}.{name}**", schema.name);
        match schema.param(name) {
            Some(param) if param.ignored => {
                let _ = write!(out, "\n\naccepted, without effect: {}", param.doc);
            }
            Some(param) => {
                let _ = write!(out, ": {}\n\n{}", described(param), param.doc);
            }
            None => out.push_str("\n\none of the arguments that it takes beside its own"),
        }
        if let Some(binding) = binding_at(self.config, mention.span) {
            let inside = match binding.scope {
                "" => String::new(),
                scope => format!(" in scope `{scope}`"),
            };
            out.push_str(&self.present(&inside, &binding.chain));
        }
        out
    }

    fn macro_value(&self, path: &str) -> String {
        let title = format!("**%{path}**");
        match self.config.macros.get(path) {
            Some(bound) => title + &self.present("", &chain(bound)),
            None => title + "\n\nnot defined here; a file that includes this one may define it",
        }
    }

    /// Describes the current value, its place, and the values that it replaced.
    fn present(&self, inside: &str, chain: &[Setting<'_>]) -> String {
        let Some((newest, older)) = chain.split_first() else { return String::new() };
        let mut out = format!("\n\n---\nnow{inside}: `{}`", shortened(newest.value));
        if let Some(computed) = self.computed(newest.value) {
            let _ = write!(out, " = `{}`", shortened(&computed));
        }
        let _ = write!(out, "  \nset in {}", self.place(newest.key));
        for older in older {
            let _ = write!(
                out,
                "  \nreplaces `{}` of {}",
                shortened(older.value),
                self.place(older.key)
            );
        }
        out
    }

    /// Returns the value of a macro or derived value, if it has one.
    fn computed(&self, value: &Value) -> Option<Value> {
        if !matches!(value.kind, ValueKind::Macro(_) | ValueKind::Computed(_)) {
            return None;
        }
        Evaluator::new(self.config, self.registry).read::<Value>(value).ok()
    }

    /// Returns a link to the binding of a key.
    fn place(&self, key: Span) -> String {
        let sources = &self.analysis.loaded.sources;
        let name = &sources.file(key.file).name;
        if name.starts_with("--") {
            return format!("`{name}`");
        }
        let (line, _) = sources.line_column(key);
        let uri = location(key, sources, self.files).uri;
        self.files.show(&self.files.path(name));
        format!("[{}:{line}]({}#L{line})", name.replace(['<', '>'], ""), uri.0)
    }
}

/// Describes the accepted values and the default. In other projects the accepted values are not
/// known.
pub fn described(param: &Param) -> String {
    let default = match &param.default {
        Fallback::Required => "required".to_string(),
        other => format!("default `{other}`"),
    };
    if param.expected.is_empty() { default } else { format!("{}; {default}", param.expected) }
}

fn shortened(value: &Value) -> String {
    let text = value.to_string().replace('`', "'");
    match text.char_indices().nth(MAX_VALUE) {
        Some((end, _)) => format!("{} ...", &text[..end]),
        None => text,
    }
}
