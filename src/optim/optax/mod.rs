//! Optax's optimizers under the names of T5X's gin files, one file each, and those of torch and nanoT5, whose updates are such formulas
//! too.
//!
//! T5X wraps them so that the Trainer's `learning_rate_fn` is logged and has no other effect: the learning
//! rate is the optimizer's own, unless that is 'trainer'. Each is a chain of optax's transformations, and the names of its state
//! have the places in that chain. Source: T5X `optimizers.py`; optax `_src/alias.py`, `_src/transform.py`.

mod adabelief;
mod adagrad;
mod adam;
mod adamw;
mod adamw_scale;
mod expr;
mod formula;
mod fromage;
mod lamb;
mod lars;
mod lion;
mod means;
mod noisy_sgd;
mod radam;
mod rate;
mod rmsprop;
mod sgd;
mod threefry;
mod torch;
mod trust_ratio;
mod yogi;

#[cfg(feature = "torch")]
mod evaluate;

use super::error::OptimError;
use super::layout::{ParamShape, Slot, StateLayout};
use super::rule::{OwnRate, Rule, TorchOptimizer};
use crate::gin::Slot as _;

pub use adabelief::AdaBelief;
pub use adagrad::Adagrad;
pub use adam::{Adam, AdamParameters};
pub use adamw::AdamW;
pub use adamw_scale::AdamWScale;
pub use expr::{Binary, Expr, Node, Unary};
pub use formula::{Changes, FusedNumbers, Turn};
pub use fromage::Fromage;
pub use lamb::Lamb;
pub use lars::Lars;
pub use lion::Lion;
pub use noisy_sgd::NoisySgd;
pub use radam::RAdam;
pub use rate::{LearningRate, Mask};
pub use rmsprop::RmsProp;
pub use sgd::Sgd;
pub use threefry::Key;
pub use torch::{
    TorchAdagrad, TorchAdam, TorchAdamW, TorchMoments, TorchNAdam, TorchRAdam, TorchRmsProp,
    TorchSgd,
};
pub use yogi::Yogi;

use formula::{Formula, OptaxSlot};

gimlet_gin::slot! {
    /// Any optimizer of optax's, torch's or nanoT5's.
    pub enum OptaxRule: Formula {
        AdaBelief,
        Adagrad,
        Adam,
        AdamW,
        AdamWScale,
        Fromage,
        Lamb,
        Lars,
        Lion,
        NoisySgd,
        RAdam,
        RmsProp,
        Sgd,
        TorchAdagrad,
        TorchAdam,
        TorchAdamW,
        TorchNAdam,
        TorchRAdam,
        TorchRmsProp,
        TorchSgd,
        Yogi,
    }
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

    /// Returns the learning rate of the update after `count` others; `trainers` is the Trainer's.
    ///
    /// # Errors
    /// A schedule that has no value.
    pub fn turn(&self, count: i64, trainers: f32) -> Result<Turn, OptimError> {
        Ok(Turn { count, learning_rate: self.spec().learning_rate().at(count, trainers)? })
    }
}

impl Rule for OptaxRule {
    fn layout(&self, param: ParamShape<'_>) -> Result<StateLayout, OptimError> {
        let (shape, dims) = (|| param.shape.to_vec(), || Some((0..param.shape.len()).collect()));
        let slot = |OptaxSlot { name, dtype, initial }| Slot {
            name,
            shape: shape(),
            dims: dims(),
            dtype,
            initial,
        };
        let slots = self.spec().slots().into_iter().map(slot).collect();
        Ok(StateLayout { slots, averaged: Vec::new(), factored: None })
    }

    fn check(&self) -> Result<(), OptimError> {
        self.turn(0, 0.0).map(drop)
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

    fn own_learning_rate(&self) -> Option<OwnRate<'_>> {
        let rate = self.spec().learning_rate();
        let name = self.schema_of().name;
        let parameter = if name.starts_with("optax.") { "learning_rate" } else { "lr" };
        let param = || format!("{name}.{parameter}");
        (*rate != LearningRate::Trainer).then(|| OwnRate { param: param(), rate })
    }

    fn of_torch(&self) -> Option<TorchOptimizer> {
        let settings = self.spec().torch_settings()?;
        Some(TorchOptimizer { settings, rate: Some(self.spec().learning_rate().clone()) })
    }

    fn needs_all_gradients(&self) -> bool {
        self.spec().needs_all_params()
    }

    fn needs_whole_params(&self) -> bool {
        matches!(self, Self::AdamWScale(_) | Self::Fromage(_) | Self::Lamb(_) | Self::Lars(_))
    }
}
