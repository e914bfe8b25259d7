//! Optimizers: specs and the layout of their state without torch, their steps on tensors with it.
//!
//! Gin names an [`OptimizerDef`]. From a parameter's name, shape and logical axes it derives
//! the [`StateLayout`]: the arrays that the optimizer keeps, with their shapes, under T5X's names.
//! With torch, an [`Optimizer`] holds those arrays and applies gradients in place.
//!
//! An optimizer of optax's is one file in `optax/`, whose formula names no tensors.

mod adafactor;
mod chain;
mod clipped;
mod error;
mod layout;
mod match_any;
mod multi;
mod optax;
mod refused;
mod rule;

#[cfg(feature = "torch")]
mod composed;
#[cfg(feature = "torch")]
mod in_backward;
#[cfg(feature = "torch")]
mod loss_scale;
#[cfg(feature = "torch")]
mod norms;
#[cfg(feature = "torch")]
mod optimizer;
#[cfg(feature = "torch")]
mod parts;
#[cfg(feature = "torch")]
mod reduction;
#[cfg(feature = "torch")]
mod update;
#[cfg(feature = "torch")]
mod watch;
#[cfg(feature = "torch")]
mod zero1;

pub use adafactor::{
    Adafactor, FactorDim, FactorRules, HParamMap, MoeLogicalFactorRules, NamedRules,
    StandardLogicalFactorRules, TransformersAdafactor,
};
pub use chain::{Chain, Clip, ClipByGlobalNorm, Transformation};
pub use clipped::Clipped;
pub use error::OptimError;
pub use layout::{Factored, ParamShape, Slot, StateLayout};
#[cfg(feature = "torch")]
pub use loss_scale::LossScale;
pub use match_any::MatchAny;
pub use multi::{ModelParamTraversal, MultiOptimizer};
pub use optax::*;
#[cfg(feature = "torch")]
pub use optimizer::{Gradient, Incoming, Optimizer};
#[cfg(feature = "torch")]
pub use parts::OwnPart;
#[cfg(feature = "torch")]
pub use reduction::Reduction;
pub use refused::{Amos, Dpsgd, Refused};
pub use rule::{OwnRate, Rule, TorchOptimizer};
#[cfg(feature = "torch")]
pub use update::{Beside, Clock, ParamState, Prepare, Prepared, Updated};
#[cfg(feature = "torch")]
pub use watch::{Watch, Watched};

gimlet_gin::slot! {
    /// Any optimizer a model accepts.
    pub enum OptimizerDef: Rule {
        Adafactor,
        TransformersAdafactor,
        OptaxRule,
        Chain,
        Clipped,
        MultiOptimizer,
        Refused,
        ..
    }
}

impl OptimizerDef {
    /// Returns the state of one parameter.
    ///
    /// # Errors
    /// A shape or axes that the optimizer's rules do not cover.
    pub fn layout(&self, param: ParamShape<'_>) -> Result<StateLayout, OptimError> {
        self.spec().layout(param)
    }

    /// Finds errors that would end a run at its first update.
    ///
    /// # Errors
    /// Such an error: a chain of another shape, or a schedule without a value.
    pub fn check(&self) -> Result<(), OptimError> {
        self.spec().check()
    }

    /// Finds an optimizer that would update none of these parameters.
    ///
    /// # Errors
    /// All of them are frozen.
    pub fn check_updates<'a>(
        &self,
        mut params: impl Iterator<Item = &'a str>,
    ) -> Result<(), OptimError> {
        match params.all(|param| self.none_path(param).is_some()) {
            true => Err(OptimError::AllFrozen),
            false => Ok(()),
        }
    }

    /// Returns T5X's path of the array `slot` of a parameter, below `param_states/`.
    pub fn path(&self, param: &str, slot: &str) -> String {
        self.spec().path(param, slot)
    }

    /// Returns T5X's path of a parameter for which it saves None instead of a state, below `param_states/`.
    pub fn none_path(&self, param: &str) -> Option<String> {
        self.spec().none_path(param)
    }

    /// Returns the choice of the parameters that it updates, for many questions. The others have no gradients.
    pub fn choice(&self) -> Box<dyn Fn(&str) -> bool + '_> {
        self.spec().choice()
    }

    /// Returns T5X's paths of counts of updates beside `state/step`, below `param_states/`.
    pub fn count_paths(&self) -> Vec<String> {
        self.spec().count_paths()
    }

    /// Whether a parameter's update depends on the gradients of others.
    pub fn needs_all_gradients(&self) -> bool {
        self.spec().needs_all_gradients()
    }

    /// Whether updates wait for all gradients; `are_divided` says that several processes update parts of parameters.
    /// Sums over processes are formed in one order everywhere, in which gradients do not arrive.
    pub fn waits_for_all(&self, are_divided: bool) -> bool {
        self.needs_all_gradients() || are_divided && self.needs_whole_params()
    }

    /// Whether an update of a part of a parameter needs numbers of all of it.
    pub fn needs_whole_params(&self) -> bool {
        self.spec().needs_whole_params()
    }

    /// Returns the optimizer of torch's or transformers' that this one is, if it is one.
    pub fn of_torch(&self) -> Option<TorchOptimizer> {
        self.spec().of_torch()
    }

    /// Whether gradients that are not finite change nothing.
    pub fn skips_nan_updates(&self) -> bool {
        self.spec().skips_nan_updates()
    }

    /// Returns its own learning rate, if the Trainer's has no effect.
    pub fn own_learning_rate(&self) -> Option<OwnRate<'_>> {
        self.spec().own_learning_rate()
    }
}

#[cfg(not(feature = "torch"))]
mod update {
    /// Without torch there are no tensors to update.
    pub trait Prepare {}

    impl<T> Prepare for T {}
}
