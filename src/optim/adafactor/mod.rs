//! Adafactor: its spec, the factoring of its state, and its step on tensors.

mod factoring;
#[cfg(feature = "torch")]
mod kernel;
mod spec;
#[cfg(feature = "torch")]
mod update;

pub use factoring::{FactorDim, FactorRules, StandardLogicalFactorRules};
pub use spec::{Adafactor, Factored, HParamMap};
