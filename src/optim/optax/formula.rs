//! The contract of an optimizer of optax's: a formula for each parameter by itself.

use super::expr::Expr;
use super::rate::LearningRate;
use crate::checkpoint::PickleValue;
use crate::nn::{Dtype, StateDtype};

/// Settings of one of torch's optimizers, except its learning rate.
pub(super) type Settings = Vec<(&'static str, PickleValue)>;

/// An optimizer as a formula for each parameter by itself.
pub(super) trait Formula {
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

    /// Whether a parameter's update depends on its place among all.
    fn needs_all_params(&self) -> bool {
        false
    }

    /// Returns the numbers of libtorch's kernel, if it computes these changes.
    fn fused(&self) -> Option<FusedNumbers> {
        None
    }

    /// Returns the settings of torch's optimizer with this state, if there is one.
    fn torch_settings(&self) -> Option<Settings> {
        self.fused().as_ref().map(settings_of)
    }
}

/// An array of the state.
pub(super) struct OptaxSlot {
    pub(super) name: &'static str,
    pub(super) dtype: Dtype,
    pub(super) initial: f64,
}

/// Returns an array that starts at zero, in float32 unless another format is given.
pub(super) fn zeros(name: &'static str, dtype: Option<StateDtype>) -> OptaxSlot {
    OptaxSlot { name, dtype: dtype.map_or(Dtype::Float32, Dtype::from), initial: 0.0 }
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
    pub(super) fn number(&self) -> i64 {
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

/// Returns settings that are numbers.
pub(super) fn floats<const N: usize>(numbers: [(&'static str, f64); N]) -> Settings {
    numbers.map(|(name, number)| (name, PickleValue::Float(number))).into()
}

/// Returns the settings of torch's Adam or AdamW.
pub(super) fn settings_of(numbers: &FusedNumbers) -> Settings {
    let &FusedNumbers { b1, b2, eps, weight_decay } = numbers;
    let float = PickleValue::Float;
    vec![
        ("betas", PickleValue::Tuple(vec![float(b1), float(b2)])),
        ("eps", float(eps)),
        ("weight_decay", float(weight_decay)),
        ("amsgrad", PickleValue::Bool(false)),
    ]
}
