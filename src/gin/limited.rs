//! Numbers with limits: a value outside of them is refused at its place, as one of another type is. A field asks for them
//! with `#[gin(limit = NonNegative)]`.

use std::marker::PhantomData;

use super::configurable::FromGin;
use super::diagnostic::Reported;
use super::evaluate::Evaluator;
use super::schema::Registry;
use super::value::{Value, ValueKind};

/// The numbers that a parameter takes.
pub trait Limit {
    /// The numbers, for messages.
    const EXPECTED: &'static str;

    /// Whether a number is one of them; NaN never is.
    fn admits(number: f64) -> bool;
}

/// Numbers from 0 on.
#[derive(Debug)]
pub struct NonNegative;

impl Limit for NonNegative {
    const EXPECTED: &'static str = "0 or more";

    fn admits(number: f64) -> bool {
        number >= 0.0
    }
}

/// Numbers from 0 to 1, without 1.
#[derive(Debug)]
pub struct BelowOne;

impl Limit for BelowOne {
    const EXPECTED: &'static str = "0 or more and below 1";

    fn admits(number: f64) -> bool {
        (0.0..1.0).contains(&number)
    }
}

/// A type that holds a number, or none.
pub trait MaybeNumber {
    /// Returns the number.
    fn number(&self) -> Option<f64>;
}

impl MaybeNumber for f64 {
    fn number(&self) -> Option<f64> {
        Some(*self)
    }
}

impl MaybeNumber for Option<f64> {
    fn number(&self) -> Option<f64> {
        *self
    }
}

/// A number within limits.
#[derive(Debug)]
pub struct Limited<T, L> {
    value: T,
    limit: PhantomData<L>,
}

impl<T, L> Limited<T, L> {
    /// Wraps a default, which is not checked.
    pub fn new(value: T) -> Self {
        Self { value, limit: PhantomData }
    }

    /// Returns the number.
    pub fn into_inner(self) -> T {
        self.value
    }
}

impl<T: FromGin + MaybeNumber, L: Limit + 'static> FromGin for Limited<T, L> {
    fn expected() -> String {
        format!("{}, {}", T::expected(), L::EXPECTED)
    }

    fn from_gin(value: &Value, cx: &mut Evaluator<'_>) -> Result<Self, Reported> {
        let read = T::from_gin(value, cx)?;
        match read.number() {
            Some(number) if !L::admits(number) => {
                Err(cx.unfit(value, &Self::expected(), &value.kind.to_string()))
            }
            _ => Ok(Self::new(read)),
        }
    }

    fn to_gin(&self) -> Option<ValueKind> {
        self.value.to_gin()
    }

    fn register(registry: &mut Registry) {
        T::register(registry);
    }

    fn supplied() -> Option<Self> {
        T::supplied().map(Self::new)
    }
}
