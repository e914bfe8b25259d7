//! How Rust's own types read gin values.

use std::collections::BTreeMap;
use std::ops::Deref;

use num_bigint::Sign;
use num_traits::ToPrimitive;

use super::configurable::FromGin;
use super::diagnostic::{Diagnostic, Reported};
use super::evaluate::Evaluator;
use super::schema::Registry;
use super::suggest::did_you_mean;
use super::value::{Value, ValueKind};

impl<T: FromGin> FromGin for Box<T> {
    fn expected() -> String {
        T::expected()
    }

    fn from_gin(value: &Value, cx: &mut Evaluator<'_>) -> Result<Self, Reported> {
        T::from_gin(value, cx).map(Box::new)
    }

    fn register(registry: &mut Registry) {
        T::register(registry);
    }
}

/// A value whose type contains itself: a metric of a metric. Its expectation names no choices,
/// since they would need the schema that is being built.
#[derive(Clone, Debug, PartialEq)]
pub struct Nested<T>(
    /// The value.
    pub Box<T>,
);

impl<T> Deref for Nested<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: FromGin> FromGin for Nested<T> {
    fn expected() -> String {
        "another one of the same kind".to_string()
    }

    fn from_gin(value: &Value, cx: &mut Evaluator<'_>) -> Result<Self, Reported> {
        T::from_gin(value, cx).map(|inner| Self(Box::new(inner)))
    }

    fn to_gin(&self) -> Option<ValueKind> {
        self.0.to_gin()
    }

    fn register(registry: &mut Registry) {
        T::register(registry);
    }
}

impl<T: FromGin> FromGin for Option<T> {
    fn expected() -> String {
        format!("{} or None", T::expected())
    }

    fn from_gin(value: &Value, cx: &mut Evaluator<'_>) -> Result<Self, Reported> {
        match value.kind {
            ValueKind::None => Ok(None),
            _ => T::from_gin(value, cx).map(Some),
        }
    }

    fn to_gin(&self) -> Option<ValueKind> {
        self.as_ref().map_or(Some(ValueKind::None), T::to_gin)
    }

    fn register(registry: &mut Registry) {
        T::register(registry);
    }

    fn names_module() -> bool {
        T::names_module()
    }

    fn supplied() -> Option<Self> {
        Some(None)
    }
}

/// A list or a tuple; gin users write either.
impl<T: FromGin> FromGin for Vec<T> {
    fn expected() -> String {
        format!("a list, each item {}", T::expected())
    }

    fn from_gin(value: &Value, cx: &mut Evaluator<'_>) -> Result<Self, Reported> {
        let (ValueKind::List(items) | ValueKind::Tuple(items)) = &value.kind else {
            return Err(cx.mismatch(value, &Self::expected()));
        };
        let read: Vec<_> = items.iter().map(|item| cx.read(item)).collect();
        read.into_iter().collect()
    }

    fn to_gin(&self) -> Option<ValueKind> {
        self.iter()
            .map(|item| item.to_gin().map(Value::unplaced))
            .collect::<Option<_>>()
            .map(ValueKind::List)
    }

    fn register(registry: &mut Registry) {
        T::register(registry);
    }
}

/// A dict; later duplicates win, and order has no meaning.
impl<T: FromGin> FromGin for BTreeMap<String, T> {
    fn expected() -> String {
        format!("a dict from str, each value {}", T::expected())
    }

    fn from_gin(value: &Value, cx: &mut Evaluator<'_>) -> Result<Self, Reported> {
        let ValueKind::Dict(entries) = &value.kind else {
            return Err(cx.mismatch(value, &Self::expected()));
        };
        let read: Vec<_> = entries
            .iter()
            .map(|(key, value)| Ok((cx.read::<String>(key)?, cx.read::<T>(value)?)))
            .collect();
        read.into_iter().collect()
    }

    fn to_gin(&self) -> Option<ValueKind> {
        let entry = |(key, value): (&String, &T)| {
            Some((Value::unplaced(ValueKind::Str(key.clone())), Value::unplaced(value.to_gin()?)))
        };
        self.iter().map(entry).collect::<Option<_>>().map(ValueKind::Dict)
    }

    fn register(registry: &mut Registry) {
        T::register(registry);
    }
}

impl<A: FromGin, B: FromGin> FromGin for (A, B) {
    fn expected() -> String {
        format!("a pair of {} and {}", A::expected(), B::expected())
    }

    fn from_gin(value: &Value, cx: &mut Evaluator<'_>) -> Result<Self, Reported> {
        match &value.kind {
            ValueKind::List(items) | ValueKind::Tuple(items) if items.len() == 2 => {
                let (first, second) = (cx.read(&items[0]), cx.read(&items[1]));
                Ok((first?, second?))
            }
            _ => Err(cx.mismatch(value, &Self::expected())),
        }
    }

    fn to_gin(&self) -> Option<ValueKind> {
        Some(ValueKind::Tuple(vec![
            Value::unplaced(self.0.to_gin()?),
            Value::unplaced(self.1.to_gin()?),
        ]))
    }

    fn register(registry: &mut Registry) {
        A::register(registry);
        B::register(registry);
    }
}

/// The value as written, not evaluated.
impl FromGin for Value {
    fn expected() -> String {
        "any value".to_string()
    }

    fn from_gin(value: &Value, _: &mut Evaluator<'_>) -> Result<Self, Reported> {
        Ok(value.clone())
    }

    fn to_gin(&self) -> Option<ValueKind> {
        Some(self.kind.clone())
    }
}

impl FromGin for String {
    fn expected() -> String {
        "a str".to_string()
    }

    fn from_gin(value: &Value, cx: &mut Evaluator<'_>) -> Result<Self, Reported> {
        match &value.kind {
            ValueKind::Str(text) => Ok(text.clone()),
            _ => Err(cx.mismatch(value, &Self::expected())),
        }
    }

    fn to_gin(&self) -> Option<ValueKind> {
        Some(ValueKind::Str(self.clone()))
    }
}

impl FromGin for f64 {
    fn expected() -> String {
        "a float".to_string()
    }

    fn from_gin(value: &Value, cx: &mut Evaluator<'_>) -> Result<Self, Reported> {
        match value.kind {
            ValueKind::Float(number) => Ok(number),
            ValueKind::Int(ref number) => Ok(number.to_f64().expect("every integer has a float")),
            _ => Err(cx.mismatch(value, &Self::expected())),
        }
    }

    fn to_gin(&self) -> Option<ValueKind> {
        Some(ValueKind::Float(*self))
    }
}

/// Python takes 0 and 1 for booleans, and published files write them.
impl FromGin for bool {
    fn expected() -> String {
        "a bool".to_string()
    }

    fn from_gin(value: &Value, cx: &mut Evaluator<'_>) -> Result<Self, Reported> {
        match value.kind {
            ValueKind::Bool(truth) => Ok(truth),
            ValueKind::Int(ref number) if number.bits() <= 1 && number.sign() != Sign::Minus => {
                Ok(number.bits() == 1)
            }
            _ => Err(cx.mismatch(value, &Self::expected())),
        }
    }

    fn to_gin(&self) -> Option<ValueKind> {
        Some(ValueKind::Bool(*self))
    }
}

macro_rules! integer {
    ($($ty:ty: $expected:literal),*) => {$(
        impl FromGin for $ty {
            fn expected() -> String {
                $expected.to_string()
            }

            fn from_gin(value: &Value, cx: &mut Evaluator<'_>) -> Result<Self, Reported> {
                let ValueKind::Int(number) = &value.kind else {
                    return Err(cx.mismatch(value, &Self::expected()));
                };
                <$ty>::try_from(number)
                    .map_err(|_| cx.unfit(value, $expected, &number.to_string()))
            }

            fn to_gin(&self) -> Option<ValueKind> {
                Some(ValueKind::Int((*self).into()))
            }
        }
    )*};
}

integer!(
    i32: "an int",
    i64: "an int",
    u32: "an int of 0 or more",
    u64: "an int of 0 or more",
    usize: "an int of 0 or more"
);

/// `'a', 'b' or 'c'`.
pub fn one_of(options: &[&str]) -> String {
    let quoted: Vec<String> = options.iter().map(|option| format!("'{option}'")).collect();
    match &quoted[..] {
        [head @ .., last] if !head.is_empty() => format!("{} or {last}", head.join(", ")),
        _ => quoted.concat(),
    }
}

/// The option that a string value names.
pub fn choose(
    value: &Value,
    options: &'static [&'static str],
    cx: &mut Evaluator<'_>,
) -> Result<&'static str, Reported> {
    let ValueKind::Str(text) = &value.kind else {
        return Err(cx.mismatch(value, &one_of(options)));
    };
    options.iter().find(|option| *option == text).copied().ok_or_else(|| {
        let message = format!("expected {}, found '{text}'", one_of(options));
        let diagnostic = Diagnostic::error(value.span, message)
            .help(did_you_mean(text, options.iter().copied()));
        cx.report(diagnostic)
    })
}
