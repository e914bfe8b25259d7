//! The values that a root configurable gets, by the path from the root. Macros, scopes and
//! references are resolved, so that two configurations that mean the same give the same lines.
//!
//! ```text
//! train.model.module.config.emb_dim = 768
//! ```

use std::collections::BTreeMap;

use super::config::{Config, scope_components};
use super::reach::{arguments_of, bindings_of};
use super::schema::{CallSite, Registry, Schema};
use super::value::{Reference, Value, ValueKind};

/// The greatest number of steps, after which a configuration with very many references is cut.
const MAX_STEPS: usize = 1_000_000;

/// The greatest depth of configurables that hold each other; a cycle ends here.
const MAX_DEPTH: usize = 100;

/// Returns every parameter below `root`, and the configurable of each reference.
pub fn tree(
    config: &Config,
    registry: &Registry,
    root: &'static Schema,
) -> BTreeMap<String, String> {
    let mut grower = Grower { config, registry, lines: BTreeMap::new(), steps: 0 };
    grower.call(
        root,
        &[],
        &CallSite::default(),
        TreePosition { path: root.short_name(), depth: 0 },
    );
    grower.lines
}

struct Grower<'a> {
    config: &'a Config,
    registry: &'a Registry,
    lines: BTreeMap<String, String>,
    steps: usize,
}

#[derive(Clone, Copy)]
struct TreePosition<'a> {
    path: &'a str,
    depth: usize,
}

/// The scope in which a value is evaluated, and its consumer's scope.
#[derive(Clone, Copy)]
struct Context<'a> {
    scope: &'a [String],
    consumer: &'a [String],
    site: Option<&'a CallSite>,
}

impl Grower<'_> {
    fn call(
        &mut self,
        schema: &'static Schema,
        scope: &[String],
        site: &CallSite,
        at: TreePosition<'_>,
    ) {
        if at.depth >= MAX_DEPTH || !self.may_go_on() {
            return;
        }
        let arguments =
            arguments_of(schema, bindings_of(self.config, schema, scope), &site.supplies);
        for (argument, value) in arguments {
            let path = format!("{}.{argument}", at.path);
            let site = schema.param(&argument).and_then(|param| param.call.as_ref());
            let context = Context { scope, consumer: scope, site };
            self.value(&value, context, TreePosition { path: &path, depth: at.depth + 1 });
        }
        for call in &schema.calls {
            let Some(target) = self.registry.get(&call.target) else { continue };
            let path = format!("{}.{}", at.path, target.short_name());
            let scope = call.site.scope_from(scope);
            self.call(
                target,
                &scope,
                &call.site,
                TreePosition { path: &path, depth: at.depth + 1 },
            );
        }
    }

    fn value(&mut self, value: &Value, cx: Context<'_>, at: TreePosition<'_>) {
        if at.depth >= MAX_DEPTH || !self.may_go_on() {
            return;
        }
        let mut item = |name: String, item: &Value| {
            let path = format!("{}{name}", at.path);
            self.value(item, cx, TreePosition { path: &path, depth: at.depth + 1 });
        };
        match &value.kind {
            ValueKind::List(items) | ValueKind::Tuple(items) if holds_references(value) => {
                items.iter().enumerate().for_each(|(i, value)| item(format!("[{i}]"), value));
            }
            ValueKind::Dict(entries) if holds_references(value) => {
                entries.iter().for_each(|(key, value)| item(format!("[{key}]"), value));
            }
            ValueKind::Reference(reference) => self.reference(reference, cx, at),
            ValueKind::Macro(used) => {
                let path = used.path();
                match self.config.macro_value(&path).cloned() {
                    Some(value) => {
                        let scope = scope_components(&path);
                        let place = TreePosition { depth: at.depth + 1, ..at };
                        self.value(&value, Context { scope: &scope, ..cx }, place);
                    }
                    None => self.line(at, value.to_string()),
                }
            }
            ValueKind::Computed(expression) => {
                let read = &mut |leaf: &Value| self.plain(leaf, at.depth);
                let computed = expression.compute(read).map(|kind| kind.to_string());
                self.line(at, computed.unwrap_or_else(|_| value.to_string()));
            }
            // Dicts with the same entries are equal, whatever their order.
            ValueKind::Dict(entries) => {
                let mut entries = entries.clone();
                entries.sort_by_cached_key(|(key, _)| key.to_string());
                self.line(at, ValueKind::Dict(entries).to_string());
            }
            kind => self.line(at, kind.to_string()),
        }
    }

    fn reference(&mut self, reference: &Reference, cx: Context<'_>, at: TreePosition<'_>) {
        let Some(schema) = self.registry.get(&reference.target) else { return };
        self.line(at, format!("@{}{}", schema.name, if reference.called { "()" } else { "" }));
        let place = TreePosition { depth: at.depth + 1, ..at };
        let own = &reference.scope[..];
        match (reference.called, cx.site) {
            (true, _) => {
                let scope = if own.is_empty() { cx.scope } else { own };
                self.call(schema, scope, &CallSite::default(), place);
            }
            (false, Some(site)) => {
                let scope = site.scope_of(own, cx.consumer);
                self.call(schema, &scope, site, place);
            }
            (false, None) => {}
        }
    }

    /// Counts a step; `false` after the last permitted one.
    fn may_go_on(&mut self) -> bool {
        self.steps += 1;
        self.steps <= MAX_STEPS
    }

    fn line(&mut self, at: TreePosition<'_>, text: String) {
        self.lines.insert(at.path.to_string(), text);
    }

    /// Evaluates a number or text behind macros.
    fn plain(&mut self, leaf: &Value, depth: usize) -> Result<ValueKind, String> {
        if depth >= MAX_DEPTH || !self.may_go_on() {
            return Err("macros lead too deep".to_string());
        }
        match &leaf.kind {
            ValueKind::Macro(used) => match self.config.macro_value(&used.path()) {
                Some(value) => self.plain(value, depth + 1),
                None => Err(format!("macro `{}` is not defined", used.path())),
            },
            ValueKind::Computed(expression) => {
                expression.compute(&mut |leaf| self.plain(leaf, depth + 1))
            }
            kind => Ok(kind.clone()),
        }
    }
}

/// Whether a value in it is not plain.
fn holds_references(value: &Value) -> bool {
    let mut found = false;
    value.for_each(&mut |leaf| {
        found |= matches!(leaf.kind, ValueKind::Reference(_) | ValueKind::Macro(_));
    });
    found
}
