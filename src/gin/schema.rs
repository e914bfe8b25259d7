//! The registry: what can be named in gin, written once, on the spec's own type.

use std::collections::BTreeMap;

use super::diagnostic::Reported;
use super::evaluate::{Evaluator, FromGin, Function};
use super::value::ValueKind;

/// One configurable: its name, documentation and parameters.
#[derive(Debug)]
pub struct Schema {
    /// Full dotted name, as in T5X: `t5x.adafactor.Adafactor`.
    pub name: &'static str,
    /// Other full names under which published files know it.
    pub aliases: &'static [&'static str],
    /// The doc comment of the type.
    pub doc: &'static str,
    /// Whether bindings of a run also reach this configurable inside task files.
    pub open: bool,
    /// The parameters in the order declared.
    pub params: Vec<Param>,
}

impl Schema {
    /// The parameter of that name.
    pub fn param(&self, name: &str) -> Option<&Param> {
        self.params.iter().find(|param| param.name == name)
    }

    /// The last component of the name: `Adafactor`.
    pub fn short_name(&self) -> &'static str {
        self.name.rsplit('.').next().expect("split yields one part")
    }

    /// Whether `suffix` is a dotted suffix of one of its names.
    pub fn has_suffix(&self, suffix: &str) -> bool {
        let ends = |name: &str| name.strip_suffix(suffix).is_some_and(|rest| rest.ends_with('.'));
        self.names().any(ends)
    }

    /// The name and its aliases.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        std::iter::once(self.name).chain(self.aliases.iter().copied())
    }
}

/// One parameter of a configurable.
#[derive(Debug)]
pub struct Param {
    /// Its name.
    pub name: &'static str,
    /// The doc comment of the field; for an ignored parameter, why it has no effect here.
    pub doc: &'static str,
    /// What may be bound: `an int`, `a str or None`.
    pub expected: String,
    /// The default as Rust source; `None` where a value is required.
    pub default: Option<&'static str>,
    /// Accepted for compatibility, without effect.
    pub ignored: bool,
}

impl Param {
    /// A parameter that a field holds.
    pub fn new(
        name: &'static str,
        doc: &'static str,
        expected: String,
        default: Option<&'static str>,
    ) -> Self {
        Self { name, doc, expected, default, ignored: false }
    }

    /// A parameter that is accepted and has no effect here.
    pub fn ignored(name: &'static str, reason: &'static str) -> Self {
        let expected = "anything; it has no effect here".to_string();
        Self { name, doc: reason, expected, default: Some("None"), ignored: true }
    }
}

/// Every configurable by full name and alias.
#[derive(Default)]
pub struct Registry {
    by_name: BTreeMap<&'static str, &'static Schema>,
    functions: BTreeMap<&'static str, Call>,
}

/// Evaluates a function configurable to its plain value.
type Call = fn(&mut Evaluator<'_>) -> Result<ValueKind, Reported>;

impl Registry {
    /// The registry of everything that can be reached from `T`.
    pub fn with<T: FromGin>(mut self) -> Self {
        T::register(&mut self);
        self
    }

    /// Adds a configurable; `false` if it is known already. Two types of one name are our bug.
    pub fn add(&mut self, schema: &'static Schema) -> bool {
        for name in schema.names() {
            if let Some(known) = self.by_name.insert(name, schema) {
                assert!(std::ptr::eq(known, schema), "two configurables are named `{name}`");
                return false;
            }
        }
        true
    }

    /// Adds a configurable that yields a plain value.
    pub fn with_function<T: Function>(mut self) -> Self {
        T::register_slot(&mut self);
        self.functions.insert(T::schema().name, |cx| T::evaluate(cx).map(T::call));
        self
    }

    /// The function of that full name, if it is one.
    pub fn function(&self, name: &str) -> Option<(&'static Schema, Call)> {
        let schema = self.get(name)?;
        Some((schema, *self.functions.get(schema.name)?))
    }

    /// The configurable of that full name.
    pub fn get(&self, name: &str) -> Option<&'static Schema> {
        self.by_name.get(name).copied()
    }

    /// Whether the configurable is a method: its name is that of another one and a last component.
    pub fn is_method(&self, schema: &Schema) -> bool {
        schema.name.rsplit_once('.').is_some_and(|(class, _)| self.get(class).is_some())
    }

    /// The shortest suffix of the full name that means this configurable alone; `Class.method` at
    /// least for a method.
    pub fn minimal_selector(&self, schema: &'static Schema) -> &'static str {
        let name = schema.name;
        let dots = name.rmatch_indices('.').skip(usize::from(self.is_method(schema)));
        let suffixes = dots.map(|(at, _)| &name[at + 1..]);
        let means_it = |suffix: &&str| match self.get(suffix) {
            Some(exact) => exact.name == name,
            None => self.iter().all(|other| other.name == name || !other.has_suffix(suffix)),
        };
        suffixes.into_iter().find(means_it).unwrap_or(name)
    }

    /// Every configurable once, sorted by name.
    pub fn iter(&self) -> impl Iterator<Item = &'static Schema> + '_ {
        self.by_name
            .iter()
            .filter(|(name, schema)| **name == schema.name)
            .map(|(_, schema)| *schema)
    }

    /// Every full name and alias, sorted.
    pub fn names(&self) -> impl Iterator<Item = &'static str> + '_ {
        self.by_name.keys().copied()
    }
}
