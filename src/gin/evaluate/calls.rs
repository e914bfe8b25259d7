//! Evaluates references and macros, each in the scope that gin gives it.

use super::{Evaluator, Frame, SINGLETON};
use crate::config::scope_components;
use crate::configurable::{Configurable, Slot, expected_bare, expected_slot};
use crate::diagnostic::{Diagnostic, Reported};
use crate::reach::{MAX_CALLS, TOO_DEEP};
use crate::schema::{Call, CallSite, REQUIRED, Schema};
use crate::source::Span;
use crate::suggest::did_you_mean;
use crate::value::{MacroUse, Reference, Value, ValueKind};

impl Frame {
    /// A call that the program makes in a scope, with nothing supplied.
    pub(super) fn in_scope<T: Configurable>(scope: &str) -> Self {
        let scope = scope_components(scope);
        Self { schema: T::schema(), scope, supplied: &[], place: None }
    }
}

impl Evaluator<'_> {
    /// Evaluates `@f()` to the spec that it names.
    pub fn called<T: Slot>(&mut self, value: &Value) -> Result<T, Reported> {
        let (reference, schema) = self.filling::<T>(value, &expected_slot::<T>())?;
        if !reference.called {
            let written = format!("@{}", reference.selector);
            let diagnostic = Diagnostic::error(
                value.span,
                format!("`{written}` names a configurable where its result is expected"),
            )
            .help(format!("add parentheses: `{written}()`"));
            return Err(self.report(diagnostic));
        }
        self.in_reference(&reference, schema, value.span, |cx| T::evaluate_as(schema, cx))
    }

    /// Evaluates a bare `@f` as it will be called: the parameter that is being read declares how.
    pub fn referenced<T: Slot>(&mut self, value: &Value) -> Result<T, Reported> {
        static LATER: CallSite = CallSite::later();
        let (reference, schema) = self.bare::<T>(value)?;
        let parameter = self.parameter.and_then(|(consumer, name)| consumer.param(name));
        let site = parameter.and_then(|parameter| parameter.call.as_ref()).unwrap_or(&LATER);
        // Within a macro, another scope is active than that of the consumer.
        let consumer = self.calls.last().map_or(&[][..], |call| &call.scope);
        let scope = site.scope_of(&reference.scope, consumer);
        let call = Frame { schema, scope, supplied: &site.supplies, place: Some(value.span) };
        self.in_call(call, |cx| T::evaluate_as(schema, cx))
    }

    /// Evaluates a configurable that the one under way runs by itself.
    pub fn own<T: Configurable>(&mut self, call: &'static Call) -> Result<T, Reported> {
        let scope = call.site.scope_from(&self.scope);
        let supplied = &call.site.supplies;
        self.in_call(Frame { schema: T::schema(), scope, supplied, place: None }, T::evaluate)
    }

    /// Returns the reference in `value`, which must not be called.
    fn bare<T: Slot>(&mut self, value: &Value) -> Result<(Reference, &'static Schema), Reported> {
        let (reference, schema) = self.filling::<T>(value, &expected_bare::<T>())?;
        if reference.called {
            let written = format!("@{}", reference.selector);
            let diagnostic = Diagnostic::error(
                value.span,
                format!("`{written}()` is called here, but the configurable itself is expected"),
            )
            .help(format!("drop the parentheses: `{written}`"));
            return Err(self.report(diagnostic));
        }
        Ok((reference, schema))
    }

    /// Returns the reference in `value`, and the one of `T`'s configurables that it names; `expected` names them all in
    /// messages.
    fn filling<T: Slot>(
        &mut self,
        value: &Value,
        expected: &str,
    ) -> Result<(Reference, &'static Schema), Reported> {
        let ValueKind::Reference(reference) = &value.kind else {
            return Err(self.mismatch(value, expected));
        };
        let schemas = T::schemas();
        let target = self.registry.get(&reference.target);
        match schemas.iter().find(|s| target.is_some_and(|t| t.name == s.name)) {
            Some(schema) => Ok((reference.clone(), schema)),
            None => {
                let written = &reference.selector;
                let message = format!("`{written}` cannot be used here, expected {expected}");
                Err(self.report(Diagnostic::error(value.span, message)))
            }
        }
    }

    /// Runs `body` on `@constructor()`, in the scope that names the singleton.
    pub(super) fn singleton<R>(
        &mut self,
        reference: &Reference,
        span: Span,
        body: impl FnOnce(&mut Self, &Value) -> Result<R, Reported>,
    ) -> Result<R, Reported> {
        let key = match reference.scope.is_empty() {
            true => self.scope.clone(),
            false => reference.scope.clone(),
        };
        let path = key.join("/");
        let bound = self.bound_in.bound(&key, SINGLETON, "constructor");
        let Some(Value { kind: ValueKind::Reference(made), .. }) = bound.filter(|b| is_bare(b))
        else {
            let message = format!("singleton `{path}` has no constructor that can be called");
            let diagnostic = Diagnostic::error(bound.map_or(span, |bound| bound.span), message);
            let help = format!("bind it: `{path}/singleton.constructor = @configurable`");
            return Err(self.report(diagnostic.help(help)));
        };
        let scope = if made.scope.is_empty() { key } else { made.scope.clone() };
        let made = Reference { scope, called: true, ..made.clone() };
        body(self, &Value { kind: ValueKind::Reference(made), span })
    }

    pub(super) fn in_reference<R>(
        &mut self,
        reference: &Reference,
        schema: &'static Schema,
        span: Span,
        body: impl FnOnce(&mut Self) -> Result<R, Reported>,
    ) -> Result<R, Reported> {
        // A scope on the reference replaces the active one; without it the consumer's is kept.
        let own = &reference.scope;
        let scope = if own.is_empty() { &self.scope } else { own }.clone();
        self.in_call(Frame { schema, scope, supplied: &[], place: Some(span) }, body)
    }

    pub(super) fn in_call<R>(
        &mut self,
        call: Frame,
        body: impl FnOnce(&mut Self) -> Result<R, Reported>,
    ) -> Result<R, Reported> {
        if self.without_calls {
            return Err(Reported);
        }
        self.check_depth(call.place)?;
        let name = call.schema.name;
        if self.calls.iter().any(|outer| outer.schema.name == name && outer.scope == call.scope) {
            let message = format!("`{}` is configured by itself", call.schema.short_name());
            let diagnostic = match call.place {
                Some(span) => Diagnostic::error(span, message),
                None => Diagnostic::nowhere(message),
            };
            return Err(self.report(diagnostic.help("break the cycle of references")));
        }
        let outer = std::mem::replace(&mut self.scope, call.scope.clone());
        self.calls.push(call);
        let result = body(self);
        self.calls.pop();
        self.scope = outer;
        result
    }

    /// Refuses calls that would need too much stack.
    fn check_depth(&mut self, place: Option<Span>) -> Result<(), Reported> {
        match (self.calls.len() + self.macros.len() < MAX_CALLS, place) {
            (true, _) => Ok(()),
            (false, Some(span)) => Err(self.report(Diagnostic::error(span, TOO_DEEP))),
            (false, None) => Err(self.report(Diagnostic::nowhere(TOO_DEEP))),
        }
    }

    /// Runs `body` on a macro's value in the macro's own scope, as gin does.
    pub(super) fn expand<R>(
        &mut self,
        used: &MacroUse,
        span: Span,
        body: impl FnOnce(&mut Self, &Value) -> Result<R, Reported>,
    ) -> Result<R, Reported> {
        let path = used.path();
        if let Some(constant) = self.registry.constant(&used.name) {
            return match constant.cloned() {
                Some(kind) => body(self, &Value { kind, span }),
                // Checked once already, together with its binding.
                None if self.without_calls => Err(Reported),
                None if used.name == REQUIRED => {
                    Err(self.report(Diagnostic::error(span, "a value is required here")))
                }
                None => {
                    let message = format!("the value of constant `{}` is not known", used.name);
                    Err(self.report(Diagnostic::error(span, message)))
                }
            };
        }
        if self.macros.contains(&path) {
            let message = format!("macro `{path}` is defined by itself");
            return Err(self.report(Diagnostic::error(span, message)));
        }
        // Macros that the run itself defines do not see the rows of a task file.
        let in_row = std::ptr::eq(self.bound_in, self.config);
        if let Some(value) = self.row.get(&path).filter(|_| in_row).cloned() {
            let scope = self.row_scope.clone();
            return self.within_macro(path, scope, span, |cx| body(cx, &value));
        }
        if self.without_calls && self.bound_in.macro_value(&path).is_none() {
            return Err(Reported);
        }
        let Some(value) = self.bound_in.macro_value(&path) else {
            let diagnostic = Diagnostic::error(span, format!("macro `{path}` is not defined"))
                .help(did_you_mean(&path, self.bound_in.macro_names()));
            return Err(self.report(diagnostic));
        };
        let scope = scope_components(&path);
        self.within_macro(path, scope, span, |cx| body(cx, value))
    }

    fn within_macro<R>(
        &mut self,
        path: String,
        scope: Vec<String>,
        span: Span,
        body: impl FnOnce(&mut Self) -> Result<R, Reported>,
    ) -> Result<R, Reported> {
        self.check_depth(Some(span))?;
        let outer = std::mem::replace(&mut self.scope, scope);
        self.macros.push(path);
        let result = body(self);
        self.macros.pop();
        self.scope = outer;
        result
    }
}

fn is_bare(value: &Value) -> bool {
    matches!(&value.kind, ValueKind::Reference(reference) if !reference.called)
}
