//! A resolved configuration: the value bound to each parameter, and the place of each binding.

use std::collections::{BTreeMap, BTreeSet};

use super::ast::{Import, ImportSource};
use super::source::Span;
use super::value::Value;

/// Full name of a configurable, as in its schema.
type Name = &'static str;

/// Every binding and macro of a set of gin texts, names resolved.
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// `(scope, configurable)` to its bound arguments.
    pub bindings: BTreeMap<(String, Name), BTreeMap<String, Bound>>,
    /// `scope/NAME` to its value.
    pub macros: BTreeMap<String, Bound>,
    /// Imports by their statements, each once.
    pub imports: BTreeMap<String, Import>,
    /// Names of the configurables that some statement mentioned.
    pub mentioned: BTreeSet<Name>,
    /// How files with dynamic registration first named a configurable, which is how it is printed.
    pub sources: BTreeMap<Name, ImportSource>,
}

/// A value and the key it was bound under.
#[derive(Clone, Debug, PartialEq)]
pub struct Bound {
    /// The value, references resolved.
    pub value: Value,
    /// Place of the key.
    pub key: Span,
    /// Values that were bound to the key before, oldest first.
    pub overridden: Vec<Overridden>,
}

/// A value that a later one replaced.
#[derive(Clone, Debug, PartialEq)]
pub struct Overridden {
    /// The value.
    pub value: Value,
    /// Place of its key.
    pub key: Span,
}

impl Bound {
    /// Makes a value that replaces the one bound to its key before.
    pub fn replacing(value: Value, key: Span, before: Option<Bound>) -> Self {
        let overridden = match before {
            None => Vec::new(),
            Some(Bound { value, key, mut overridden }) => {
                overridden.push(Overridden { value, key });
                overridden
            }
        };
        Self { value, key, overridden }
    }
}

/// Splits `a/b` into its components; the root is the empty path and has none.
pub(super) fn scope_components(path: &str) -> Vec<String> {
    path.split('/').filter(|part| !part.is_empty()).map(str::to_string).collect()
}

impl Config {
    /// Returns the innermost binding along the prefixes of `scope`.
    pub fn bound(&self, scope: &[String], name: Name, arg: &str) -> Option<&Value> {
        (0..=scope.len()).rev().find_map(|depth| {
            let bindings = self.bindings.get(&(scope[..depth].join("/"), name))?;
            Some(&bindings.get(arg)?.value)
        })
    }

    /// Returns the value of macro `path`: its own, or that of the innermost outer scope with one.
    pub fn macro_value(&self, path: &str) -> Option<&Value> {
        let mut path = path;
        loop {
            if let Some(bound) = self.macros.get(path) {
                return Some(&bound.value);
            }
            path = path.rsplit_once('/')?.0;
        }
    }

    /// Returns the macros' paths, sorted.
    pub fn macro_names(&self) -> impl Iterator<Item = &str> {
        self.macros.keys().map(String::as_str)
    }

    /// Returns the scopes in which `name` has bindings, sorted.
    pub fn scopes_of(&self, name: &str) -> Vec<&str> {
        let keys = self.bindings.keys().filter(|(_, bound)| *bound == name);
        keys.map(|(scope, _)| scope.as_str()).collect()
    }
}
