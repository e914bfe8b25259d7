//! Optax's optimizers under the names of T5X's gin files, one file each.
//!
//! T5X wraps them so that the Trainer's `learning_rate_fn` is logged and has no other effect: the learning
//! rate is the optimizer's own. Each is a chain of optax's transformations, and the names of its state
//! have the places in that chain. Source: T5X `optimizers.py`; optax `_src/alias.py`, `_src/transform.py`.

mod adabelief;
mod adagrad;
mod adam;
mod adamw;
mod expr;
mod fromage;
mod lamb;
mod lars;
mod lion;
mod means;
mod radam;
mod rate;
mod rmsprop;
mod sgd;
mod trust_ratio;
mod yogi;

#[cfg(feature = "torch")]
mod evaluate;

use crate::nn::Dtype;

use super::Rule;
use super::error::OptimError;
use super::layout::{ParamShape, Slot, StateLayout};

pub use adabelief::AdaBelief;
pub use adagrad::Adagrad;
pub use adam::Adam;
pub use adamw::AdamW;
pub use expr::{Binary, Expr, Node, Unary};
pub use fromage::Fromage;
pub use lamb::Lamb;
pub use lars::Lars;
pub use lion::Lion;
pub use radam::RAdam;
pub use rate::{LearningRate, Mask};
pub use rmsprop::RmsProp;
pub use sgd::Sgd;
pub use yogi::Yogi;

gimlet_gin::slot! {
    /// Any optimizer of optax's.
    pub enum OptaxRule: Formula {
        AdaBelief,
        Adagrad,
        Adam,
        AdamW,
        Fromage,
        Lamb,
        Lars,
        Lion,
        RAdam,
        RmsProp,
        Sgd,
        Yogi,
    }
}

/// An optimizer as a formula for each parameter by itself.
trait Formula {
    /// Returns the learning rate.
    fn learning_rate(&self) -> &LearningRate;

    /// Returns the path of a schedule's count, `1/count` if the rate is the second transformation.
    fn rate_count(&self) -> &'static str;

    /// Returns the arrays of the state, which have the parameter's shape.
    fn slots(&self) -> Vec<OptaxSlot>;

    /// Returns the paths of all other counts of updates.
    fn counts(&self) -> Vec<&'static str> {
        Vec::new()
    }

    /// Returns the update after `turn.count` others.
    fn changes(&self, turn: &Turn) -> Changes;

    /// Returns the numbers of libtorch's kernel, if it computes these changes.
    fn fused(&self) -> Option<FusedNumbers> {
        None
    }
}

/// An array of the state.
struct OptaxSlot {
    name: &'static str,
    dtype: Dtype,
    initial: f64,
}

/// Returns an array that starts at zero, in float32 unless another format is given.
fn zeros(name: &'static str, dtype: Option<Dtype>) -> OptaxSlot {
    OptaxSlot { name, dtype: dtype.unwrap_or(Dtype::Float32), initial: 0.0 }
}

/// An update: its number and its learning rate.
#[derive(Clone, Copy, Debug)]
pub struct Turn {
    /// The number of updates before.
    pub count: i64,
    /// The learning rate of this update.
    pub learning_rate: f64,
}

impl Turn {
    /// The number of this update, from 1.
    fn number(&self) -> i64 {
        self.count + 1
    }
}

/// The formulas of an update, as data.
#[derive(Clone, Debug)]
pub struct Changes {
    /// The number to add to the parameter.
    pub step: Expr,
    /// The new state, in the order of the layout's slots.
    pub state: Vec<Expr>,
}

/// The numbers of libtorch's kernel for Adam, whose state is the mean and the mean square.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FusedNumbers {
    /// Decay of the gradients' mean.
    pub b1: f64,
    /// Decay of the squared gradients' mean.
    pub b2: f64,
    /// Added to the root of the second moment.
    pub eps: f64,
    /// Decay of the parameters, times the learning rate.
    pub weight_decay: f64,
}

impl OptaxRule {
    /// Returns the formulas of an update.
    pub fn changes(&self, turn: &Turn) -> Changes {
        self.spec().changes(turn)
    }

    /// Returns the numbers of libtorch's kernel, if it computes this optimizer's changes.
    pub fn fused(&self) -> Option<FusedNumbers> {
        self.spec().fused()
    }

    /// Returns the learning rate of the update after `count` others.
    ///
    /// # Errors
    /// A schedule that has no value.
    pub fn turn(&self, count: i64) -> Result<Turn, OptimError> {
        Ok(Turn { count, learning_rate: self.spec().learning_rate().at(count)? })
    }
}

impl Rule for OptaxRule {
    fn layout(&self, param: ParamShape<'_>) -> Result<StateLayout, OptimError> {
        let shape = || param.shape.to_vec();
        let slot =
            |OptaxSlot { name, dtype, initial }| Slot { name, shape: shape(), dtype, initial };
        let slots = self.spec().slots().into_iter().map(slot).collect();
        Ok(StateLayout { slots, averaged: Vec::new(), factored: None })
    }

    fn check(&self) -> Result<(), OptimError> {
        self.turn(0).map(drop)
    }

    fn path(&self, param: &str, slot: &str) -> String {
        format!("{slot}/{param}")
    }

    fn count_paths(&self) -> Vec<String> {
        let formula = self.spec();
        let scheduled = matches!(formula.learning_rate(), LearningRate::Schedule(_));
        let rate = scheduled.then(|| formula.rate_count());
        formula.counts().into_iter().chain(rate).map(str::to_string).collect()
    }
}
