//! Errors of optimizers.

use super::adafactor::FactorDim;
use crate::nn::C10dError;

/// An optimizer that does not fit its parameters.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OptimError {
    /// Another process of the run is lost.
    #[error(transparent)]
    Lost(C10dError),
    /// Three or more dimensions and no rule.
    #[error(
        "parameter `{name}` of shape {shape:?} needs a factorization rule, since it has more than \
         two dimensions; bind `adafactor.Adafactor.logical_factor_rules = \
         @adafactor.standard_logical_factor_rules()`"
    )]
    NeedsRule {
        /// The parameter.
        name: String,
        /// Its shape.
        shape: Vec<usize>,
    },
    /// An axis that the rules do not name.
    #[error("`logical_factor_rules` has no rule for axis `{axis}` of parameter `{name}`")]
    UnknownAxis {
        /// The parameter.
        name: String,
        /// The axis.
        axis: String,
    },
    /// Rows, columns and a dimension that is neither.
    #[error(
        "`logical_factor_rules` give parameter `{name}` rows, columns and a dimension that is \
         neither ({dims:?} for {axes:?}); mark the latter row, column or batch"
    )]
    Incomplete {
        /// The parameter.
        name: String,
        /// Its axes.
        axes: Vec<&'static str>,
        /// Their rules.
        dims: Vec<FactorDim>,
    },
    /// Axes and shape differ in rank.
    #[error("parameter `{name}` has {axes} logical axes and {rank} dimensions")]
    Rank {
        /// The parameter.
        name: String,
        /// Number of axes.
        axes: usize,
        /// Number of dimensions.
        rank: usize,
    },
    /// A step at which the decay has no value.
    #[error(
        "step {step} lies before `adafactor.Adafactor.step_offset` ({step_offset}), where the \
         second moment starts; bind the step of the restored checkpoint, or 0"
    )]
    BeforeOffset {
        /// The step.
        step: i64,
        /// The step at which the second moment starts.
        step_offset: i64,
    },
    /// Transformations that are not supported, or not in their order.
    #[error(
        "`optimizers.chain.transformations` are [{found}], expected any number of @optax.clip() and \
         @optax.clip_by_global_norm(), then one optimizer of optax, such as @optax.adamw()"
    )]
    Chain {
        /// Their names.
        found: String,
    },
    /// An optimizer of T5X's that does not exist here.
    #[error("`{name}` is not supported: {reason}")]
    Refused {
        /// Its name in gin.
        name: &'static str,
        /// The reason, and an alternative.
        reason: &'static str,
    },
    /// Settings that exclude each other.
    #[error("`{name}`: {reason}")]
    Settings {
        /// The optimizer's name in gin.
        name: &'static str,
        /// The reason.
        reason: &'static str,
    },
    /// Two rules for one parameter.
    #[error(
        "parameter `{name}` is chosen by traversals {first} and {second} of \
         `MultiOptimizer.traversals_and_optimizers`; a parameter has one optimizer"
    )]
    ChosenTwice {
        /// The parameter.
        name: String,
        /// The number of a traversal that chooses it, from 1.
        first: usize,
        /// The number of the next one.
        second: usize,
    },
    /// No parameter has an optimizer.
    #[error(
        "no traversal of `optimizers.MultiOptimizer` chooses a parameter, so that all would keep their values; \
         patterns of `filter_fn` match whole paths such as `/encoder/encoder_norm/scale`, and \
         `mesh_variable_filter` is found in Mesh TensorFlow's names"
    )]
    AllFrozen,
    /// A regular expression that is not one.
    #[error("`{pattern}` of `ModelParamTraversal.{param}` is not a pattern: {reason}")]
    Pattern {
        /// The parameter.
        param: &'static str,
        /// The pattern.
        pattern: String,
        /// The reason.
        reason: String,
    },
    /// A schedule that cannot be computed.
    #[error("the optimizer's learning rate: {0}")]
    Schedule(String),
    /// A gradient or an array for a parameter that the optimizer does not know.
    #[error("the optimizer has no parameter `{name}`")]
    UnknownParam {
        /// The parameter, or the array's path.
        name: String,
    },
    /// A checkpoint of another model or another configuration of the optimizer.
    #[error(
        "optimizer state `{name}` has shape {found:?}, expected {expected:?}; was the checkpoint \
         written with other settings of the optimizer?"
    )]
    Shape {
        /// The array's path.
        name: String,
        /// The shape given.
        found: Vec<usize>,
        /// The shape of this configuration.
        expected: Vec<usize>,
    },
}
