//! A gin value: a Python literal, a reference, a use of a macro or an expression over macros, with
//! its place in the text.

use num_bigint::BigInt;

use super::expression::Expression;
use super::source::Span;

/// A value and its place in the text. Equality ignores the place.
#[derive(Clone, Debug)]
pub struct Value {
    /// The value itself.
    pub kind: ValueKind,
    /// Place of the value in the text.
    pub span: Span,
}

impl PartialEq for Value {
    fn eq(&self, other: &Self) -> bool {
        self.kind == other.kind
    }
}

/// The kinds of gin values.
#[derive(Clone, Debug, PartialEq)]
pub enum ValueKind {
    /// `None`
    None,
    /// `True`, `False`
    Bool(bool),
    /// An integer of any size.
    Int(BigInt),
    /// A float.
    Float(f64),
    /// `3j`: real and imaginary part.
    Complex(f64, f64),
    /// A text.
    Str(String),
    /// `b'...'`
    Bytes(Vec<u8>),
    /// `[...]`
    List(Vec<Value>),
    /// `(...)`
    Tuple(Vec<Value>),
    /// `{...}` in the order written, later duplicates already merged.
    Dict(Vec<(Value, Value)>),
    /// `@scope/selector` or `@scope/selector()`
    Reference(Reference),
    /// `%scope/NAME`
    Macro(MacroUse),
    /// `%(A * 2)`, `f'{A}/b'`
    Computed(Expression),
}

impl From<i64> for ValueKind {
    fn from(value: i64) -> Self {
        Self::Int(value.into())
    }
}

/// `@scope/selector`, called or not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reference {
    /// Scope components; empty for none.
    pub scope: Vec<String>,
    /// The selector as written.
    pub selector: String,
    /// The full name of the configurable; equals `selector` until resolved.
    pub target: String,
    /// Whether `()` follows.
    pub called: bool,
}

/// `%scope/NAME`, a macro or a constant such as `%gin.REQUIRED`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MacroUse {
    /// Scope components; empty for none.
    pub scope: Vec<String>,
    /// The name, dotted for constants.
    pub name: String,
}

impl Value {
    /// Creates a value that stands in no text.
    pub fn unplaced(kind: ValueKind) -> Self {
        Self { kind, span: Span::NOWHERE }
    }

    /// Passes every value within this one that holds no others, keys of dicts included, to `visit`.
    pub fn for_each(&self, visit: &mut impl FnMut(&Value)) {
        match &self.kind {
            ValueKind::List(items) | ValueKind::Tuple(items) => {
                items.iter().for_each(|item| item.for_each(visit));
            }
            ValueKind::Dict(entries) => {
                for (key, value) in entries {
                    key.for_each(visit);
                    value.for_each(visit);
                }
            }
            ValueKind::Computed(expression) => expression.for_each(visit),
            _ => visit(self),
        }
    }
}

impl Value {
    /// Does the same as [`Value::for_each`], but lets `visit` change the values.
    pub fn for_each_mut(&mut self, visit: &mut impl FnMut(&mut Value)) {
        match &mut self.kind {
            ValueKind::List(items) | ValueKind::Tuple(items) => {
                items.iter_mut().for_each(|item| item.for_each_mut(visit));
            }
            ValueKind::Dict(entries) => {
                for (key, value) in entries {
                    key.for_each_mut(visit);
                    value.for_each_mut(visit);
                }
            }
            ValueKind::Computed(expression) => expression.for_each_mut(visit),
            _ => visit(self),
        }
    }
}

impl MacroUse {
    /// The scope of `gin.macro` that holds the macro's value: `scope/NAME`.
    pub fn path(&self) -> String {
        let mut parts = self.scope.clone();
        parts.push(self.name.clone());
        parts.join("/")
    }
}

impl ValueKind {
    /// Returns the Python type that a user would name in an error: `an int`, `a list`.
    pub fn type_name(&self) -> &'static str {
        match self {
            ValueKind::None => "None",
            ValueKind::Bool(_) => "a bool",
            ValueKind::Int(_) => "an int",
            ValueKind::Float(_) => "a float",
            ValueKind::Complex(..) => "a complex",
            ValueKind::Str(_) => "a str",
            ValueKind::Bytes(_) => "bytes",
            ValueKind::List(_) => "a list",
            ValueKind::Tuple(_) => "a tuple",
            ValueKind::Dict(_) => "a dict",
            ValueKind::Reference(r) if r.called => "the result of a configurable",
            ValueKind::Reference(_) => "a reference",
            ValueKind::Macro(_) => "a macro",
            ValueKind::Computed(_) => "a computed value",
        }
    }
}
