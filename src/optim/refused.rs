//! Optimizers of T5X's that do not exist here, refused by name with the reason.

use crate::gin::{Configurable, Slot as _};

use super::error::OptimError;
use super::layout::{ParamShape, StateLayout};
use super::rule::Rule;

gimlet_gin::slot! {
    /// Any optimizer of T5X's that does not exist here.
    pub enum Refused: Reason {
        Amos,
        Dpsgd,
    }
}

/// Not supported: its state has the shapes that the user's Python function gives.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "t5x.optimizers.amos", ignored(learning_rate = "the optimizer is not supported"))]
pub struct Amos;

/// Not supported: it needs a gradient for each example.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(
    name = "optax.contrib.dpsgd",
    alias = "t5x.optimizers.dpsgd",
    ignored(learning_rate = "the optimizer is not supported"),
    ignored(l2_norm_clip = "the optimizer is not supported"),
    ignored(noise_multiplier = "the optimizer is not supported"),
    ignored(seed = "the optimizer is not supported"),
    ignored(momentum = "the optimizer is not supported"),
    ignored(nesterov = "the optimizer is not supported")
)]
pub struct Dpsgd;

/// The reason for a refusal, and an alternative.
trait Reason {
    fn reason(&self) -> &'static str;
}

impl Reason for Amos {
    fn reason(&self) -> &'static str {
        "its state has the shapes that a Python function gives; use @optimizers.adamw() or \
         @adafactor.Adafactor()"
    }
}

impl Reason for Dpsgd {
    fn reason(&self) -> &'static str {
        "it needs a gradient for each example, and the Trainer has one for each batch; clip with \
         @optax.clip_by_global_norm() in @optimizers.chain() if privacy is not the aim"
    }
}

impl Refused {
    pub(super) fn error(&self) -> OptimError {
        OptimError::Refused { name: self.schema_of().name, reason: self.spec().reason() }
    }
}

impl Rule for Refused {
    fn layout(&self, _: ParamShape<'_>) -> Result<StateLayout, OptimError> {
        Err(self.error())
    }

    fn check(&self) -> Result<(), OptimError> {
        Err(self.error())
    }

    fn path(&self, param: &str, slot: &str) -> String {
        format!("{slot}/{param}")
    }
}
