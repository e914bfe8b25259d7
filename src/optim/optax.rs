//! Optax's transformations under the names of T5X's gin files: AdamW, alone or after gradient
//! clipping.
//!
//! T5X wraps them so that the Trainer's `learning_rate_fn` is logged and has no other effect: the learning
//! rate is `optax.adamw`'s own. Source: T5X `optimizers.py`; optax `alias.py`, `transforms/_clipping.py`.

use crate::gin::{Configurable, Evaluator, FromGin, Registry, Reported, Value, ValueKind};
use crate::nn::Dtype;
use crate::schedule::Schedule;

use super::spec::{OptimError, ParamShape, Slot, StateLayout};

/// One transformation of gradients after another. Source: T5X `optimizers.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "t5x.optimizers.chain")]
pub struct Chain {
    /// Clipping of gradients, in order, then AdamW.
    pub transformations: Vec<Transformation>,
}

/// Any transformation of gradients.
#[derive(Clone, Debug, PartialEq, Configurable)]
pub enum Transformation {
    /// Limits each number by itself.
    Clip(Clip),
    /// Limits the norm of all numbers.
    ClipByGlobalNorm(ClipByGlobalNorm),
    /// Converts gradients to updates.
    AdamW(AdamW),
}

/// Limits each element of the gradients to `[-max_delta, max_delta]`. Source: optax
/// `transforms/_clipping.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "optax.clip")]
pub struct Clip {
    /// The largest magnitude.
    pub max_delta: f64,
}

/// Scales gradients whose norm over all parameters exceeds `max_norm` down to it. Source: optax
/// `transforms/_clipping.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "optax.clip_by_global_norm")]
pub struct ClipByGlobalNorm {
    /// The largest norm.
    pub max_norm: f64,
}

/// Adam with decoupled weight decay (Loshchilov & Hutter 2019, arXiv:1711.05101). Source: optax `alias.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "optax.adamw", alias = "t5x.optimizers.adamw")]
pub struct AdamW {
    /// A number, or a schedule of the updates made so far.
    pub learning_rate: LearningRate,
    /// Decay of the gradients' mean.
    #[gin(default = 0.9)]
    pub b1: f64,
    /// Decay of the squared gradients' mean.
    #[gin(default = 0.999)]
    pub b2: f64,
    /// Added to the root of the second moment.
    #[gin(default = 1e-8)]
    pub eps: f64,
    /// Added to the second moment under the root.
    #[gin(default = 0.0)]
    pub eps_root: f64,
    /// Storage format of the first moment; None means that of the parameters, float32.
    #[gin(default = None)]
    pub mu_dtype: Option<Dtype>,
    /// Decay of all parameters by each update, as a fraction of them, times the learning rate.
    #[gin(default = 1e-4)]
    pub weight_decay: f64,
    /// The parameters that decay; only None, which means all, is supported.
    #[gin(default = None)]
    pub mask: Option<Mask>,
    /// Whether the first moment looks one update ahead (Dozat 2016).
    #[gin(default = false)]
    pub nesterov: bool,
}

/// Optax's choice of parameters, which is not supported here.
#[derive(Clone, Debug, PartialEq)]
pub enum Mask {}

/// A learning rate in the forms that optax accepts.
#[derive(Clone, Debug, PartialEq)]
pub enum LearningRate {
    /// The same for all updates.
    Constant(f64),
    /// A function of the number of updates made before.
    Schedule(Schedule),
}

/// The place of AdamW in a chain.
pub(super) struct PlacedAdamW<'a> {
    pub(super) adamw: &'a AdamW,
    /// Prefix of T5X's names of its state: empty, or its index in the chain and a slash.
    pub(super) prefix: String,
}

impl Chain {
    /// Returns the last transformation, which must be AdamW; all before must be clips.
    pub(super) fn adamw(&self) -> Result<PlacedAdamW<'_>, OptimError> {
        let is_adamw = |t: &Transformation| matches!(t, Transformation::AdamW(_));
        let first = self.transformations.iter().position(is_adamw);
        match &self.transformations[..] {
            [clips @ .., Transformation::AdamW(adamw)] if first == Some(clips.len()) => {
                Ok(PlacedAdamW { adamw, prefix: format!("{}/", clips.len()) })
            }
            other => {
                let name = |transformation: &Transformation| match transformation {
                    Transformation::Clip(_) => "@optax.clip()",
                    Transformation::ClipByGlobalNorm(_) => "@optax.clip_by_global_norm()",
                    Transformation::AdamW(_) => "@optax.adamw()",
                };
                let names: Vec<&str> = other.iter().map(name).collect();
                Err(OptimError::Chain { found: names.join(", ") })
            }
        }
    }
}

impl AdamW {
    /// Returns the learning rate of the update that follows `count` others.
    ///
    /// # Errors
    /// A schedule that has no value.
    pub(super) fn learning_rate(&self, count: i64) -> Result<f64, OptimError> {
        match &self.learning_rate {
            LearningRate::Constant(rate) => Ok(*rate),
            LearningRate::Schedule(schedule) => {
                let schedule = schedule.build();
                let schedule = schedule.map_err(|error| OptimError::Schedule(error.to_string()))?;
                Ok(f64::from(schedule.at(count)))
            }
        }
    }

    /// Returns the layout of both moments of a parameter, in its shape.
    pub(super) fn layout(&self, param: ParamShape<'_>) -> StateLayout {
        let slot = |name, dtype| Slot { name, shape: param.shape.to_vec(), dtype };
        StateLayout {
            slots: vec![
                slot("mu", self.mu_dtype.unwrap_or(Dtype::Float32)),
                slot("nu", Dtype::Float32),
            ],
            averaged: Vec::new(),
            factored: None,
        }
    }
}

impl FromGin for LearningRate {
    fn expected() -> String {
        format!("a number or {}", Schedule::expected())
    }

    fn from_gin(value: &Value, cx: &mut Evaluator<'_>) -> Result<Self, Reported> {
        match &value.kind {
            ValueKind::Reference(_) => cx.read(value).map(Self::Schedule),
            ValueKind::Int(_) | ValueKind::Float(_) => cx.read(value).map(Self::Constant),
            _ => Err(cx.mismatch(value, &Self::expected())),
        }
    }

    fn register(registry: &mut Registry) {
        Schedule::register(registry);
    }
}

impl FromGin for Mask {
    fn expected() -> String {
        "no choice of parameters".to_string()
    }

    fn from_gin(value: &Value, cx: &mut Evaluator<'_>) -> Result<Self, Reported> {
        Err(cx.mismatch(value, "None: weight decay reaches all parameters"))
    }
}
