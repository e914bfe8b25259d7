//! The statements of a translation, as they are collected with mistakes and warnings.

use std::fmt::Display;

use gimlet_gin::{Configurable, Diagnostic, FromGin, Schema};

use crate::Statement;
use crate::mesh_tf::read::{Places, place};

/// The value of a configurable's parameter in a scope.
#[derive(Clone, Copy)]
pub struct Valued<'a, V> {
    scope: &'a str,
    schema: &'static Schema,
    parameter: &'a str,
    value: V,
}

/// Creates the value of a parameter of `T`.
pub fn valued<'a, T: Configurable, V>(
    scope: &'a str,
    parameter: &'a str,
    value: V,
) -> Valued<'a, V> {
    Valued { scope, schema: T::schema(), parameter, value }
}

impl<V> Valued<'_, V> {
    fn name(&self) -> String {
        let slash = if self.scope.is_empty() { "" } else { "/" };
        format!("{}{slash}{}.{}", self.scope, self.schema.short_name(), self.parameter)
    }
}

/// Statements, mistakes and warnings.
pub struct Statements<'a> {
    pub places: Places<'a>,
    pub statements: Vec<Statement>,
    pub mistakes: Vec<Diagnostic>,
    pub warnings: Vec<Diagnostic>,
}

impl<'a> Statements<'a> {
    /// Creates an empty list.
    pub fn new(places: Places<'a>) -> Self {
        Self { places, statements: Vec::new(), mistakes: Vec::new(), warnings: Vec::new() }
    }

    /// Binds a key of T5X's to a value that comes from a parameter of `T` in a scope.
    pub fn bind<T: Configurable>(
        &mut self,
        key: &str,
        value: impl FromGin,
        (scope, parameter): (&str, &str),
    ) {
        self.write::<T>(key, &text(&value), (scope, parameter));
    }

    /// Binds a key to the text of a value that comes from a parameter of `T` in a scope.
    pub fn write<T: Configurable>(
        &mut self,
        key: &str,
        value: &str,
        (scope, parameter): (&str, &str),
    ) {
        let place = self.places.of::<T>(scope, parameter);
        let default = || format!("the default of {}.{parameter}", T::schema().short_name());
        self.write_from(&place.unwrap_or_else(default), key, value);
    }

    /// Binds a key to the text of a value that `place` gives: a flag, or the task.
    pub fn write_from(&mut self, place: &str, key: &str, value: &str) {
        let text = format!("{key} = {value}");
        self.statements.push(Statement { place: place.to_string(), text });
    }

    /// Records that the value of a parameter has no counterpart.
    pub fn refuse<T: Configurable>(
        &mut self,
        (scope, parameter): (&str, &str),
        message: impl Into<String>,
        help: impl Into<String>,
    ) {
        let mistake = self.places.mistake::<T>(scope, parameter, message).help(help);
        self.mistakes.push(mistake);
    }

    /// Returns the one value that parameters have; other values are a mistake.
    pub fn equal<V: PartialEq + Display + Clone>(
        &mut self,
        what: &str,
        values: &[Valued<'_, V>],
    ) -> V {
        let first = &values[0];
        if let Some(other) = values.iter().find(|other| other.value != first.value) {
            let message = format!(
                "`{}` is {} and `{}` is {}: a model has one {what}",
                first.name(),
                first.value,
                other.name(),
                other.value
            );
            let bound =
                |it: &Valued<'_, V>| self.places.bound_to(it.schema, it.scope, it.parameter);
            let mistake = match (bound(first), bound(other)) {
                (Some(first), Some(other)) => Diagnostic::error(place(other), message)
                    .related(place(first), "the other value"),
                (Some(only), None) | (None, Some(only)) => Diagnostic::error(place(only), message),
                (None, None) => Diagnostic::nowhere(message),
            };
            self.mistakes.push(mistake.help("bind both to the same value"));
        }
        first.value.clone()
    }
}

/// Returns a value as gin writes it.
pub fn text(value: &impl FromGin) -> String {
    value.to_gin().map_or_else(String::new, |kind| kind.to_string())
}
