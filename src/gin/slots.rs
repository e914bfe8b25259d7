//! The reading of values that are references.

use std::ops::Deref;

use super::configurable::{FromGin, Slot, expected_slot};
use super::diagnostic::Reported;
use super::evaluate::Evaluator;
use super::schema::{CallSite, Registry, Schema};
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

/// A bare `@f`: the configurable itself, for a caller that runs it in the reference's own scope,
/// else in the root scope, and supplies the arguments that are not in its schema.
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
        expected_slot::<T>().replace("()", "")
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

/// A bare `@f` that a function gets and calls while it runs: in the reference's own scope, else in
/// the scope of the function.
#[derive(Clone, Debug, PartialEq)]
pub struct FnRef<T>(
    /// The configurable for the call.
    pub T,
);

impl<T> Deref for FnRef<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: Slot> FromGin for FnRef<T> {
    fn expected() -> String {
        Ref::<T>::expected()
    }

    fn from_gin(value: &Value, cx: &mut Evaluator<'_>) -> Result<Self, Reported> {
        cx.passed::<T>(value).map(Self)
    }

    fn register(registry: &mut Registry) {
        T::register_slot(registry);
    }

    fn call_site() -> CallSite {
        CallSite::default()
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
