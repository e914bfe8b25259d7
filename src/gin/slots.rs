//! The reading of values that are references.

use std::ops::Deref;

use super::configurable::{FromGin, Slot, expected_bare};
use super::diagnostic::Reported;
use super::evaluate::Evaluator;
use super::schema::{Registry, Schema};
use super::value::{Reference, Value, ValueKind};

/// Implements [`FromGin`] for a type that references stand for. Written by the derive.
#[macro_export]
#[doc(hidden)]
macro_rules! read_slot {
    ($ty:ty) => {
        impl $crate::FromGin for $ty {
            fn expected() -> ::std::string::String {
                $crate::expected_slot::<$ty>()
            }
            fn from_gin(
                value: &$crate::Value,
                cx: &mut $crate::Evaluator<'_>,
            ) -> ::core::result::Result<Self, $crate::Reported> {
                cx.called::<$ty>(value)
            }
            fn register(registry: &mut $crate::Registry) {
                <$ty as $crate::Slot>::register_slot(registry);
            }
        }
    };
}

/// A bare `@f`: the configurable for a call after configuration. It is evaluated in the scope of that
/// call, which the field declares: `#[gin(call(scope = "encoder", supplies = ["mesh"]))]`. Without the
/// attribute the caller enters no scope and supplies nothing.
#[derive(Clone, Debug, PartialEq)]
pub struct Ref<T>(
    /// The configurable for the call.
    pub T,
);

impl<T> Deref for Ref<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: Slot> FromGin for Ref<T> {
    fn expected() -> String {
        expected_bare::<T>()
    }

    fn from_gin(value: &Value, cx: &mut Evaluator<'_>) -> Result<Self, Reported> {
        cx.referenced::<T>(value).map(Ref)
    }

    fn to_gin(&self) -> Option<ValueKind> {
        let name = self.0.schema_of().name.to_string();
        let reference =
            Reference { scope: Vec::new(), selector: name.clone(), target: name, called: false };
        Some(ValueKind::Reference(reference))
    }

    fn register(registry: &mut Registry) {
        T::register_slot(registry);
    }
}

/// A parameter whose value some callers supply; `None` where the caller of this spec does.
#[derive(Clone, Debug, PartialEq)]
pub struct Suppliable<T>(
    /// The bound value.
    pub Option<T>,
);

impl<T> Deref for Suppliable<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.0.as_ref().expect("a caller does not read the arguments that it supplies")
    }
}

impl<T: FromGin> FromGin for Suppliable<T> {
    fn expected() -> String {
        T::expected()
    }

    fn from_gin(value: &Value, cx: &mut Evaluator<'_>) -> Result<Self, Reported> {
        T::from_gin(value, cx).map(Some).map(Self)
    }

    fn to_gin(&self) -> Option<ValueKind> {
        self.0.as_ref()?.to_gin()
    }

    fn register(registry: &mut Registry) {
        T::register(registry);
    }

    fn supplied() -> Option<Self> {
        Some(Self(None))
    }
}

impl<T: Slot> Slot for Box<T> {
    fn schemas() -> Vec<&'static Schema> {
        T::schemas()
    }

    fn schema_of(&self) -> &'static Schema {
        self.deref().schema_of()
    }

    fn evaluate_as(schema: &'static Schema, cx: &mut Evaluator<'_>) -> Result<Self, Reported> {
        T::evaluate_as(schema, cx).map(Box::new)
    }

    fn register_slot(registry: &mut Registry) {
        T::register_slot(registry);
    }
}
