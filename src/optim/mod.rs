//! Optimizers: specs and the layout of their state without torch, their steps on tensors with it.
//!
//! Gin names an [`OptimizerDef`]. From a parameter's name, shape and logical axes it derives
//! the [`StateLayout`]: the arrays that the optimizer keeps, with their shapes, under T5X's names.
//! With torch, an [`Optimizer`] holds those arrays and applies gradients in place.

mod factoring;
mod optax;
mod spec;

#[cfg(feature = "torch")]
mod adafactor;
#[cfg(feature = "torch")]
mod adamw;
#[cfg(feature = "torch")]
mod in_backward;
#[cfg(feature = "torch")]
mod norms;
#[cfg(feature = "torch")]
mod optimizer;
#[cfg(feature = "torch")]
mod update;
#[cfg(feature = "torch")]
mod watch;

pub use factoring::{FactorDim, FactorRules, StandardLogicalFactorRules};
pub use optax::{AdamW, Chain, Clip, ClipByGlobalNorm, LearningRate, Mask, Transformation};
#[cfg(feature = "torch")]
pub use optimizer::{Gradient, Optimizer};
pub use spec::{
    Adafactor, Factored, HParamMap, OptimError, OptimizerDef, ParamShape, Slot, StateLayout,
};
#[cfg(feature = "torch")]
pub use watch::{Watch, Watched};
