//! Evaluation: turns bindings into specs. It is pure: it opens, builds and runs nothing.
//!
//! The evaluator carries gin's active scope. A parameter's value is the innermost binding along the
//! scope's prefixes, else the field's default. Every mistake is recorded and evaluation continues,
//! so that one run reports all mistakes.

mod calls;

use std::collections::BTreeMap;

use super::config::{Config, scope_components};
use super::configurable::{Configurable, FromGin};
use super::diagnostic::{Diagnostic, Reported};
use super::expression::Expression;
use super::reach::no_value;
use super::schema::{Registry, Schema};
use super::source::Span;
use super::value::{Value, ValueKind};

/// `@key/gin.singleton()` means the one object of that key.
const SINGLETON: &str = "gin.singleton";

/// The reason why a derived value could not be computed.
enum NotComputed {
    Reported(Reported),
    Because(String),
}

impl From<String> for NotComputed {
    fn from(reason: String) -> Self {
        Self::Because(reason)
    }
}

/// A call of a configurable.
struct Frame {
    schema: &'static Schema,
    /// The scope that it runs in.
    scope: Vec<String>,
    /// Arguments that the caller supplies.
    supplied: &'static [String],
    /// The place of the reference; `None` for a configurable that the program runs by itself.
    place: Option<Span>,
}

/// Evaluates configurables against a configuration.
pub struct Evaluator<'a> {
    config: &'a Config,
    /// A run's configuration while task files are evaluated; only `open` configurables see it.
    run_config: Option<&'a Config>,
    /// The configuration that binds the value being read; its macros apply.
    bound_in: &'a Config,
    registry: &'a Registry,
    scope: Vec<String>,
    /// Calls under way, outermost first.
    calls: Vec<Frame>,
    macros: Vec<String>,
    /// The parameter whose value is being read.
    parameter: Option<(&'static Schema, &'static str)>,
    diagnostics: Vec<Diagnostic>,
    /// Values of macros that derived values use, by whether the macro is the run's, and by its
    /// path.
    computed: BTreeMap<(bool, String), ValueKind>,
    /// Whether references are only looked at and never run.
    without_calls: bool,
    /// Macros of the row that is evaluated, and the scope they are evaluated in.
    row: BTreeMap<String, Value>,
    row_scope: Vec<String>,
}

impl<'a> Evaluator<'a> {
    /// An evaluator in the root scope.
    pub fn new(config: &'a Config, registry: &'a Registry) -> Self {
        Self {
            config,
            run_config: None,
            bound_in: config,
            registry,
            scope: Vec::new(),
            calls: Vec::new(),
            macros: Vec::new(),
            parameter: None,
            diagnostics: Vec::new(),
            computed: BTreeMap::new(),
            without_calls: false,
            row: BTreeMap::new(),
            row_scope: Vec::new(),
        }
    }

    /// Gives macros the values of a row, which are evaluated in `scope`.
    pub fn with_row(mut self, row: BTreeMap<String, Value>, scope: &str) -> Self {
        (self.row, self.row_scope) = (row, scope_components(scope));
        self
    }

    /// Evaluates a single parameter of `T`, as it is bound in the given scope.
    pub fn argument_in<T: Configurable, V: FromGin>(
        &mut self,
        scope: &str,
        name: &'static str,
        default: Option<fn() -> V>,
    ) -> Result<V, Reported> {
        let call = Frame::in_scope::<T>(scope);
        self.in_call(call, |cx| cx.param::<V>(T::schema(), name, default))
    }

    /// Limits the evaluator to checks of types: references are looked at and never run.
    pub(crate) fn without_calls(mut self) -> Self {
        self.without_calls = true;
        self
    }

    /// Reads a value in the given scope.
    pub(crate) fn read_in<T: FromGin>(
        &mut self,
        scope: &[String],
        value: &Value,
    ) -> Result<T, Reported> {
        self.scope = scope.to_vec();
        self.read(value)
    }

    /// Records type errors in a value that is bound to a parameter in `scope`.
    pub(crate) fn check_type(
        &mut self,
        scope: &str,
        schema: &'static Schema,
        argument: &str,
        value: &Value,
    ) {
        self.scope = scope_components(scope);
        let known = schema.param(argument).and_then(|param| Some((param, param.check?)));
        let Some((param, check)) = known else { return self.check_computed(value) };
        self.parameter = Some((schema, param.name));
        // Errors are in the diagnostics.
        let _ = check(value, self);
        self.parameter = None;
    }

    /// Records errors of computation in a value of any type.
    pub(crate) fn check_computed(&mut self, value: &Value) {
        match &value.kind {
            ValueKind::List(items) | ValueKind::Tuple(items) => {
                items.iter().for_each(|item| self.check_computed(item));
            }
            ValueKind::Dict(entries) => {
                for (key, value) in entries {
                    self.check_computed(key);
                    self.check_computed(value);
                }
            }
            ValueKind::Computed(expression) => {
                let _ = self.compute(expression, value.span);
            }
            _ => {}
        }
    }

    /// Lets `open` configurables also see the bindings of `run_config`.
    pub fn with_run_config(mut self, run_config: &'a Config) -> Self {
        self.run_config = Some(run_config);
        self
    }

    /// Evaluates `T` in the given scope; an empty path is the root.
    pub fn evaluate_in<T: Configurable>(&mut self, scope: &str) -> Result<T, Reported> {
        self.in_call(Frame::in_scope::<T>(scope), T::evaluate)
    }

    /// Returns the mistakes found since the last call.
    pub(crate) fn take_diagnostics(&mut self) -> Vec<Diagnostic> {
        std::mem::take(&mut self.diagnostics)
    }

    /// Returns the mistakes found, each once.
    pub fn into_diagnostics(self) -> Vec<Diagnostic> {
        self.diagnostics
    }

    /// Returns the active scope, `a/b`; empty at the root.
    pub fn scope_path(&self) -> String {
        self.scope.join("/")
    }

    /// Records a mistake, only once even if its place is evaluated several times.
    pub fn report(&mut self, diagnostic: Diagnostic) -> Reported {
        if !self.diagnostics.contains(&diagnostic) {
            self.diagnostics.push(diagnostic);
        }
        Reported
    }

    /// Records that a value has the wrong type.
    pub fn mismatch(&mut self, value: &Value, expected: &str) -> Reported {
        self.unfit(value, expected, value.kind.type_name())
    }

    /// Records that another value was expected than the one that was `found`.
    pub fn unfit(&mut self, value: &Value, expected: &str, found: &str) -> Reported {
        let unfit = self.unfit_value(value, expected, found);
        self.report(unfit)
    }

    /// Records that another value was expected, and the reason why there is no other.
    pub fn unfit_because(&mut self, value: &Value, expected: &str, reason: &str) -> Reported {
        let unfit = self.unfit_value(value, expected, &value.kind.to_string());
        self.report(unfit.help(reason))
    }

    fn unfit_value(&self, value: &Value, expected: &str, found: &str) -> Diagnostic {
        let parameter = match self.parameter {
            Some((schema, name)) => format!(" for `{}.{name}`", schema.short_name()),
            None => String::new(),
        };
        let message = format!("expected {expected}{parameter}, found {found}");
        Diagnostic::error(value.span, message).label(format!("expected {expected}"))
    }

    /// Returns the value of a parameter: the innermost binding, else the default. As in gin-config, an
    /// argument that the caller supplies hides both.
    pub fn param<T: FromGin>(
        &mut self,
        schema: &'static Schema,
        name: &'static str,
        default: Option<fn() -> T>,
    ) -> Result<T, Reported> {
        if self.calls.last().is_some_and(|call| call.supplied.iter().any(|given| given == name)) {
            let given = T::supplied().or_else(|| default.map(|default| default()));
            return Ok(given.expect("an argument that a caller supplies is `Suppliable`"));
        }
        if let Some((value, bound_in)) = self.bound(schema, name) {
            let outer = self.parameter.replace((schema, name));
            let outer_config = std::mem::replace(&mut self.bound_in, bound_in);
            let read = self.read(value);
            self.bound_in = outer_config;
            self.parameter = outer;
            return read;
        }
        match default {
            Some(default) => Ok(default()),
            None => Err(self.missing(schema, name)),
        }
    }

    /// Reads a value: looks up macros, calls functions, then converts the result to `T`.
    pub fn read<T: FromGin>(&mut self, value: &Value) -> Result<T, Reported> {
        match &value.kind {
            ValueKind::Macro(used) => self.expand(used, value.span, |cx, value| cx.read(value)),
            // The unknown name was reported when the text was loaded.
            ValueKind::Reference(reference) if self.registry.get(&reference.target).is_none() => {
                Err(Reported)
            }
            ValueKind::Reference(reference) if reference.called => {
                if reference.target == SINGLETON {
                    return self.singleton(reference, value.span, |cx, value| cx.read(value));
                }
                match self.registry.function(&reference.target) {
                    Some((schema, call)) => {
                        let called = self.in_reference(reference, schema, value.span, call)?;
                        let kind = called
                            .map_err(|reason| self.report(Diagnostic::error(value.span, reason)))?;
                        self.read(&Value { kind, span: value.span })
                    }
                    None => T::from_gin(value, self),
                }
            }
            ValueKind::Computed(expression) => {
                let kind = self.compute(expression, value.span)?;
                T::from_gin(&Value { kind, span: value.span }, self)
            }
            _ => T::from_gin(value, self),
        }
    }

    fn compute(&mut self, expression: &Expression, span: Span) -> Result<ValueKind, Reported> {
        let computed = expression.compute(&mut |leaf| {
            let ValueKind::Macro(used) = &leaf.kind else { return Ok(leaf.kind.clone()) };
            let key = (!std::ptr::eq(self.bound_in, self.config), used.path());
            // Each macro is computed once, not once for each path that leads to it.
            if let Some(known) = self.computed.get(&key) {
                return Ok(known.clone());
            }
            let value = self.read::<Value>(leaf).map_err(NotComputed::Reported)?;
            self.computed.insert(key, value.kind.clone());
            Ok(value.kind)
        });
        computed.map_err(|error| match error {
            NotComputed::Reported(reported) => reported,
            NotComputed::Because(reason) => self.report(Diagnostic::error(span, reason)),
        })
    }

    /// Returns the value bound to a parameter, and the configuration that binds it.
    fn bound(&self, schema: &'static Schema, name: &str) -> Option<(&'a Value, &'a Config)> {
        let find = |config: &'a Config| {
            config.bound(&self.scope, schema.name, name).map(|value| (value, config))
        };
        find(self.config).or_else(|| find(self.run_config.filter(|_| schema.open)?))
    }

    fn missing(&mut self, schema: &'static Schema, name: &str) -> Reported {
        let param = schema.param(name).expect("the derive asks for declared parameters");
        let place = self.calls.iter().rev().find_map(|call| call.place);
        let diagnostic = no_value(schema, param, &self.scope, place.unwrap_or(Span::NOWHERE));
        self.report(diagnostic)
    }
}
