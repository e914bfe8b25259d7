//! The contract of an optimizer.

use super::error::OptimError;
use super::layout::{ParamShape, StateLayout};
use super::optax::LearningRate;
use super::update::Prepare;
use crate::checkpoint::PickleValue;
use crate::gin::AnySpec;

/// A learning rate that belongs to an optimizer.
#[derive(Clone, Debug, PartialEq)]
pub struct OwnRate<'a> {
    /// The parameter that gin binds.
    pub param: String,
    /// Its value.
    pub rate: &'a LearningRate,
}

/// An optimizer of torch's that makes the same updates, with the same state under other names.
#[derive(Clone, Debug, PartialEq)]
pub struct TorchOptimizer {
    /// The parameters of its group, except the learning rate.
    pub settings: Vec<(&'static str, PickleValue)>,
    /// The learning rate; `None` for an optimizer that has none.
    pub rate: Option<LearningRate>,
}

/// An optimizer that gin can name. With torch, [`Prepare`] has its steps on tensors.
pub trait Rule: Prepare + AnySpec {
    /// Returns the state of one parameter.
    ///
    /// # Errors
    /// A shape or axes that the optimizer's rules do not cover.
    fn layout(&self, param: ParamShape<'_>) -> Result<StateLayout, OptimError>;

    /// Finds errors that would end a run at its first update.
    ///
    /// # Errors
    /// Such an error.
    fn check(&self) -> Result<(), OptimError> {
        Ok(())
    }

    /// Returns T5X's path of the array `slot` of a parameter, below `param_states/`.
    fn path(&self, param: &str, slot: &str) -> String {
        format!("{param}/{slot}")
    }

    /// Returns T5X's path of a parameter for which it saves None instead of a state, below `param_states/`.
    fn none_path(&self, _: &str) -> Option<String> {
        None
    }

    /// Returns the choice of the parameters that it updates, for many questions. The others have no gradients.
    fn choice(&self) -> Box<dyn Fn(&str) -> bool + '_> {
        Box::new(|param| self.none_path(param).is_none())
    }

    /// Returns T5X's paths of counts of updates beside `state/step`, below `param_states/`.
    fn count_paths(&self) -> Vec<String> {
        Vec::new()
    }

    /// Whether a parameter's update depends on the gradients of others.
    fn needs_all_gradients(&self) -> bool {
        false
    }

    /// Whether an update depends on sums over its whole parameter, such as norms. Then it must form them by
    /// [`super::OwnPart`] of the state, since processes may have parts of the parameter.
    fn needs_whole_params(&self) -> bool {
        false
    }

    /// Returns its own learning rate, if the Trainer's has no effect.
    fn own_learning_rate(&self) -> Option<OwnRate<'_>> {
        None
    }

    /// Returns the optimizer of torch's or transformers' that this one is, if it is one.
    fn of_torch(&self) -> Option<TorchOptimizer> {
        None
    }

    /// Whether gradients that are not finite change nothing.
    fn skips_nan_updates(&self) -> bool {
        false
    }
}
