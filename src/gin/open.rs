//! The declaration of a slot, and its open variant: specs of other crates, which a program registers
//! before it reads gin.
//!
//! The specs that a slot admits belong to the process, as the types of its other variants do: schemas
//! are made from types, where no registry is at hand.

use std::any::{Any, TypeId};
use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, PoisonError, RwLock};

use super::configurable::{Configurable, Slot};
use super::diagnostic::Reported;
use super::evaluate::Evaluator;
use super::schema::{Registry, Schema};

/// Declares a slot: an enum with one variant per spec, each named like the spec it holds, and `spec`,
/// which yields it as the trait that they all implement. After a last `..` specs of other crates may
/// fill it too, if they implement the trait; see [`crate::Fills`].
#[macro_export]
#[doc(hidden)]
macro_rules! slot {
    ($(#[$attribute:meta])* pub enum $slot:ident: $interface:ident { $($spec:ident),* $(,)? }) => {
        $crate::slot! {
            @variants $(#[$attribute])* $slot {
                $(#[doc = concat!("See [`", stringify!($spec), "`].")] $spec($spec),)*
            }
        }

        impl $slot {
            fn spec(&self) -> &(dyn $interface + 'static) {
                match self { $(Self::$spec(spec) => spec,)* }
            }
        }
    };
    ($(#[$attribute:meta])* pub enum $slot:ident: $interface:ident { $($spec:ident,)* .. }) => {
        $crate::slot! {
            @variants $(#[$attribute])* $slot {
                $(#[doc = concat!("See [`", stringify!($spec), "`].")] $spec($spec),)*
                #[doc = "A spec of another crate, which the program registered."]
                Open($crate::Open<$slot>),
            }
        }

        impl $slot {
            fn spec(&self) -> &(dyn $interface + 'static) {
                match self {
                    $(Self::$spec(spec) => spec,)*
                    Self::Open(spec) => &**spec,
                }
            }
        }

        impl $crate::OpenSlot for $slot {
            type Interface = dyn $interface;

            fn admitted() -> &'static $crate::Admitted<Self> {
                static ADMITTED: $crate::Admitted<$slot> = $crate::Admitted::none();
                &ADMITTED
            }
        }

        impl<T: $interface> $crate::Admits<T> for $slot {
            fn open(spec: T) -> ::std::sync::Arc<dyn $interface> {
                ::std::sync::Arc::new(spec)
            }
        }
    };
    (@variants $(#[$attribute:meta])* $slot:ident {
        $(#[$doc:meta] $variant:ident($spec:ty),)*
    }) => {
        $(#[$attribute])*
        #[derive(Clone, Debug, PartialEq, $crate::Configurable)]
        pub enum $slot {
            $(#[$doc] $variant($spec),)*
        }

        $(
            impl ::core::convert::From<$spec> for $slot {
                fn from(spec: $spec) -> Self {
                    Self::$variant(spec)
                }
            }
        )*
    };
}

/// A spec of any type. The trait of an open slot has it as a supertrait.
pub trait AnySpec: Any + fmt::Debug + Send + Sync {
    /// Returns the schema of the spec's type.
    fn own_schema(&self) -> &'static Schema;

    /// Whether the other is an equal spec of the same type.
    fn equals(&self, other: &dyn Any) -> bool;

    /// Returns the spec, for a comparison.
    fn as_any(&self) -> &dyn Any;
}

impl<T: Slot + fmt::Debug + PartialEq + Send + Sync> AnySpec for T {
    fn own_schema(&self) -> &'static Schema {
        self.schema_of()
    }

    fn equals(&self, other: &dyn Any) -> bool {
        other.downcast_ref() == Some(self)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// An enum of specs with a variant for specs of other crates. Written by [`crate::slot`].
pub trait OpenSlot: Sized + 'static {
    /// The trait that all its specs implement.
    type Interface: AnySpec + ?Sized;

    /// Returns the specs of other crates that this process has registered.
    fn admitted() -> &'static Admitted<Self>;
}

/// An open slot that a spec may fill, since the spec implements the slot's trait.
pub trait Admits<T>: OpenSlot {
    /// Returns the spec as the slot uses it.
    fn open(spec: T) -> Arc<Self::Interface>;
}

/// A spec of another crate, which says the slot that it fills:
/// `impl Fills for SignSgd { type Slot = OptimizerDef; }`.
pub trait Fills: Configurable {
    /// The slot.
    type Slot: Admits<Self>;
}

/// Lets gin files of this process name the spec. Must be called before the first of them is read.
pub fn admit<T: Fills>() {
    T::Slot::admitted().add(Admission {
        of: TypeId::of::<T>(),
        schema: T::schema,
        evaluate: |cx| T::evaluate(cx).map(|spec| Open(T::Slot::open(spec))),
        register: T::register_slot,
    });
}

/// The specs of other crates that may fill a slot.
pub struct Admitted<S: OpenSlot>(RwLock<Vec<Admission<S>>>);

/// One of them, as functions: a schema that refers to its own slot needs the list to be complete.
struct Admission<S: OpenSlot> {
    of: TypeId,
    schema: fn() -> &'static Schema,
    evaluate: fn(&mut Evaluator<'_>) -> Result<Open<S>, Reported>,
    register: fn(&mut Registry),
}

impl<S: OpenSlot> Clone for Admission<S> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<S: OpenSlot> Copy for Admission<S> {}

impl<S: OpenSlot> Admitted<S> {
    /// Creates an empty list.
    pub const fn none() -> Self {
        Self(RwLock::new(Vec::new()))
    }

    fn add(&self, admission: Admission<S>) {
        let mut list = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if list.iter().all(|known| known.of != admission.of) {
            list.push(admission);
        }
    }

    fn all(&self) -> Vec<Admission<S>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// A spec of another crate in a slot. It dereferences to the slot's trait.
pub struct Open<S: OpenSlot>(Arc<S::Interface>);

impl<S: OpenSlot> Deref for Open<S> {
    type Target = S::Interface;

    fn deref(&self) -> &S::Interface {
        &self.0
    }
}

impl<S: OpenSlot> Clone for Open<S> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<S: OpenSlot> fmt::Debug for Open<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<S: OpenSlot> PartialEq for Open<S> {
    fn eq(&self, other: &Self) -> bool {
        self.0.equals(other.0.as_any())
    }
}

impl<S: OpenSlot> Slot for Open<S> {
    fn schemas() -> Vec<&'static Schema> {
        S::admitted().all().iter().map(|admission| (admission.schema)()).collect()
    }

    fn schema_of(&self) -> &'static Schema {
        self.0.own_schema()
    }

    fn evaluate_as(schema: &'static Schema, cx: &mut Evaluator<'_>) -> Result<Self, Reported> {
        let all = S::admitted().all();
        let named = all.iter().find(|admission| (admission.schema)().name == schema.name);
        (named.expect("the schema is one of this slot's").evaluate)(cx)
    }

    fn register_slot(registry: &mut Registry) {
        S::admitted().all().iter().for_each(|admission| (admission.register)(registry));
    }
}
