//! Adafactor as in T5X and as in transformers: specs, the factoring of the state, and the step on tensors.

mod factoring;
#[cfg(feature = "torch")]
mod kernel;
mod spec;
mod transformers;
#[cfg(feature = "torch")]
mod update;

pub use factoring::{
    FactorDim, FactorRules, MoeLogicalFactorRules, NamedRules, StandardLogicalFactorRules,
};
pub use spec::{Adafactor, HParamMap};
pub use transformers::TransformersAdafactor;
