//! The configurables that a run of a root configurable reaches, with their scopes and values.
//!
//! The walk follows references as gin runs them (docs/gin.md, "Scopes"), by schemas alone: nothing
//! is evaluated to a spec. It gives the operative configuration, unused bindings, and cycles.

use std::collections::{BTreeMap, BTreeSet};

use super::config::{Config, scope_components};
use super::diagnostic::Diagnostic;
use super::schema::{CallSite, Fallback, Param, Registry, Schema};
use super::source::Span;
use super::value::{MacroUse, Reference, Value, ValueKind};

/// The greatest depth of references and macros that lead to each other; it bounds the stack.
pub(super) const MAX_CALLS: usize = 200;

/// The error message beyond that depth.
pub(super) const TOO_DEEP: &str = "references and macros lead deeper than 200 levels";

/// The parameters of one configurable in one scope.
type Arguments = BTreeMap<String, Value>;

/// The result of following references and macros.
#[derive(Debug, Default)]
pub struct Reached {
    /// `(scope, configurable)` to its parameters: those bound, and defaults that gin can write.
    pub sections: BTreeMap<(String, &'static str), Arguments>,
    /// Macros that were used, by the path in the use.
    pub macros: BTreeMap<String, Value>,
    /// `(scope, configurable, argument)` of the bindings that had an effect.
    pub used: BTreeSet<(String, &'static str, String)>,
    /// Scopes that were active.
    pub scopes: BTreeSet<String>,
    /// References and macros that lead back to themselves.
    pub cycles: Vec<Diagnostic>,
    /// Parameters that have neither a value nor a default.
    pub missing: Vec<Diagnostic>,
}

/// Follows `roots`, each a scope and a configurable run in it.
pub fn reach(
    config: &Config,
    registry: &Registry,
    roots: impl IntoIterator<Item = (Vec<String>, &'static Schema)>,
) -> Reached {
    let mut walk = Walk::new(config, registry);
    for (scope, schema) in roots {
        walk.call(schema, &scope, &[], Span::NOWHERE);
    }
    walk.reached
}

/// Follows all bindings, as if each configurable was run in the scope of its bindings.
pub fn reach_all(config: &Config, registry: &Registry) -> Reached {
    let mut walk = Walk::new(config, registry);
    for (scope, name) in config.bindings.keys() {
        let schema = registry.get(name).expect("bindings name what the registry holds");
        walk.call(schema, &scope_components(scope), &[], Span::NOWHERE);
    }
    for (path, bound) in &config.macros {
        let (scope, name) = path.rsplit_once('/').unwrap_or(("", path));
        let used = MacroUse { scope: scope_components(scope), name: name.to_string() };
        walk.expand(&used, bound.key, &[], None);
    }
    walk.reached
}

/// Bound arguments, each with the scope of its binding.
pub(super) type Bindings = BTreeMap<String, (Value, String)>;

/// Returns the arguments bound to a configurable that runs in `scope`: inner scopes win.
pub(super) fn bindings_of(config: &Config, schema: &Schema, scope: &[String]) -> Bindings {
    let mut out = Bindings::new();
    for depth in 0..=scope.len() {
        let prefix = scope[..depth].join("/");
        for (argument, bound) in
            config.bindings.get(&(prefix.clone(), schema.name)).into_iter().flatten()
        {
            out.insert(argument.clone(), (bound.value.clone(), prefix.clone()));
        }
    }
    out
}

/// Returns the arguments of a configurable that its caller does not supply: those in `bound`, and
/// defaults that gin can write and bind.
pub(super) fn arguments_of(schema: &Schema, bound: Bindings, supplied: &[String]) -> Arguments {
    let default = |param: &Param| match &param.default {
        Fallback::Value(kind) if !param.ignored && schema.refusal(param.name).is_none() => {
            Some((param.name.to_string(), Value::unplaced(kind.clone())))
        }
        _ => None,
    };
    let mut out: Arguments = schema.params.iter().filter_map(default).collect();
    out.extend(bound.into_iter().map(|(argument, (value, _))| (argument, value)));
    out.retain(|argument, _| !supplied.contains(argument));
    out
}

/// Reports that a parameter without a default has no value in a scope. The place is that of the reference which
/// needs it, if there is one.
pub(super) fn no_value(schema: &Schema, param: &Param, scope: &[String], at: Span) -> Diagnostic {
    let scope: String = scope.iter().map(|part| format!("{part}/")).collect();
    let binding = format!("{scope}{}.{}", schema.short_name(), param.name);
    let message = format!("`{binding}` is required and has no value");
    let diagnostic = match at == Span::NOWHERE {
        true => Diagnostic::nowhere(message),
        false => Diagnostic::error(at, message),
    };
    let diagnostic = diagnostic.help(format!("bind it: `{binding} = ...` ({})", param.expected));
    match param.doc.lines().next() {
        Some(summary) => diagnostic.help(format!("{}: {summary}", param.name)),
        None => diagnostic,
    }
}

struct Walk<'a> {
    config: &'a Config,
    registry: &'a Registry,
    reached: Reached,
    /// Calls that were followed already: scope, configurable, arguments from the caller.
    visited: BTreeSet<(String, &'static str, Vec<String>)>,
    /// Macros that were followed already: path, scope of the consumer, how it calls.
    expanded: BTreeSet<(String, Vec<String>, Option<CallSite>)>,
    /// Calls under way, outermost first.
    calls: Vec<(String, &'static str)>,
    /// Macros being expanded, outermost first.
    macros: Vec<String>,
}

impl<'a> Walk<'a> {
    fn new(config: &'a Config, registry: &'a Registry) -> Self {
        Self {
            config,
            registry,
            reached: Reached::default(),
            visited: BTreeSet::new(),
            expanded: BTreeSet::new(),
            calls: Vec::new(),
            macros: Vec::new(),
        }
    }

    fn call(&mut self, schema: &'static Schema, scope: &[String], supplied: &[String], at: Span) {
        let path = scope.join("/");
        let call = (path.clone(), schema.name);
        if self.calls.contains(&call) {
            let message = format!("`{}` is configured by itself", schema.short_name());
            let diagnostic = Diagnostic::error(at, message).help("break the cycle of references");
            return self.reached.cycles.push(diagnostic);
        }
        if !self.visited.insert((path.clone(), schema.name, supplied.to_vec())) || self.too_deep(at)
        {
            return;
        }
        self.reached.scopes.insert(path);
        self.calls.push(call);
        let bound = self.arguments(schema, scope, supplied);
        self.note_missing(schema, scope, (&bound, supplied), at);
        for (argument, (value, _)) in &bound {
            let site = schema.param(argument).and_then(|param| param.call.as_ref());
            self.value(value, scope, scope, site);
        }
        for call in &schema.calls {
            if let Some(target) = self.registry.get(&call.target) {
                let scope = call.site.scope_from(scope);
                self.call(target, &scope, &call.site.supplies, at);
            }
        }
        self.calls.pop();
    }

    /// Records the parameters of a call, and returns the bound ones.
    fn arguments(
        &mut self,
        schema: &'static Schema,
        scope: &[String],
        supplied: &[String],
    ) -> Bindings {
        let key = (scope.join("/"), schema.name);
        let bound = bindings_of(self.config, schema, scope);
        let arguments = arguments_of(schema, bound.clone(), supplied);
        self.reached.sections.entry(key).or_default().extend(arguments);
        let used = bound.iter().filter(|(argument, _)| !supplied.contains(argument));
        self.reached.used.extend(
            used.map(|(argument, (_, from))| (from.clone(), schema.name, argument.clone())),
        );
        bound
    }

    /// Notes the parameters of a call that have no value. In another project, the root configurable
    /// is exempt: the program that runs it may pass arguments.
    fn note_missing(
        &mut self,
        schema: &'static Schema,
        scope: &[String],
        (bound, supplied): (&Bindings, &[String]),
        at: Span,
    ) {
        if self.registry.any_module && self.calls.len() == 1 {
            return;
        }
        let lacks = |param: &&Param| {
            param.default == Fallback::Required
                && !bound.contains_key(param.name)
                && !supplied.iter().any(|supplied| supplied == param.name)
                && schema.refusal(param.name).is_none()
        };
        let missing = schema.params.iter().filter(lacks);
        self.reached.missing.extend(missing.map(|param| no_value(schema, param, scope, at)));
    }

    /// Follows a value that is evaluated in `scope` for a consumer that runs in `consumer`.
    fn value(
        &mut self,
        value: &Value,
        scope: &[String],
        consumer: &[String],
        site: Option<&CallSite>,
    ) {
        value.for_each(&mut |value| match &value.kind {
            ValueKind::Reference(reference) => {
                self.reference(reference, scope, consumer, site, value.span);
            }
            ValueKind::Macro(used) => self.expand(used, value.span, consumer, site),
            _ => {}
        });
    }

    fn reference(
        &mut self,
        reference: &Reference,
        scope: &[String],
        consumer: &[String],
        site: Option<&CallSite>,
        at: Span,
    ) {
        let Some(schema) = self.registry.get(&reference.target) else { return };
        if reference.called {
            let own = &reference.scope[..];
            return self.call(schema, if own.is_empty() { scope } else { own }, &[], at);
        }
        let Some(site) = site else { return };
        let scope = site.scope_of(&reference.scope, consumer);
        self.call(schema, &scope, &site.supplies, at);
    }

    fn too_deep(&mut self, at: Span) -> bool {
        let deep = self.calls.len() + self.macros.len() >= MAX_CALLS;
        if deep {
            self.reached.cycles.push(Diagnostic::error(at, TOO_DEEP));
        }
        deep
    }

    /// Follows a macro's value, which is evaluated in the scope of the macro's own path.
    fn expand(&mut self, used: &MacroUse, at: Span, consumer: &[String], site: Option<&CallSite>) {
        let path = used.path();
        if self.macros.contains(&path) {
            let message = format!("macro `{path}` is defined by itself");
            let diagnostic = Diagnostic::error(at, message).help("break the cycle of macros");
            return self.reached.cycles.push(diagnostic);
        }
        if !self.expanded.insert((path.clone(), consumer.to_vec(), site.cloned()))
            || self.too_deep(at)
        {
            return;
        }
        let Some(value) = self.config.macro_value(&path).cloned() else { return };
        self.reached.macros.insert(path.clone(), value.clone());
        self.reached.scopes.insert(path.clone());
        let scope = scope_components(&path);
        self.macros.push(path);
        self.value(&value, &scope, consumer, site);
        self.macros.pop();
    }
}
