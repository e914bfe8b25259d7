//! Adafactor as in Hugging Face's transformers: any matrix is factored, and the learning rate is its own.
//!
//! The state has the names of T5X's Adafactor, and the shapes that it has with `min_dim_size_to_factor = 1`, beside a
//! count of updates: transformers counts from the optimizer's first update, whatever the step of the checkpoint.

use crate::checkpoint::PickleValue;
use crate::gin::Configurable;
use crate::optim::LearningRate;
use crate::optim::error::OptimError;
use crate::optim::layout::{ParamShape, StateLayout};
use crate::optim::rule::{Rule, TorchOptimizer};

use super::factoring::smaller_as_rows;
use super::spec::slots;

/// `Adafactor` of Hugging Face's transformers; files that write `Adafactor` mean T5X's. Source: transformers `optimization.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "gimlet.optimizers.TransformersAdafactor")]
pub struct TransformersAdafactor {
    /// A number, or a schedule of the updates made so far; None with `relative_step`.
    #[gin(default = None)]
    pub lr: Option<LearningRate>,
    /// Added to the squared gradient, and the lower limit of a parameter's scale.
    #[gin(default = (1e-30, 1e-3))]
    pub eps: (f64, f64),
    /// Updates whose root mean square exceeds this are scaled down to it.
    #[gin(default = 1.0)]
    pub clip_threshold: f64,
    /// Exponent of the second moment's decay: beta2 is 1 - updates^decay_rate.
    #[gin(default = -0.8)]
    pub decay_rate: f64,
    /// Decay of the momentum; with None there is no momentum, which saves memory.
    #[gin(default = None, limit = BelowOne)]
    pub beta1: Option<f64>,
    /// Decay of the weights by each update, as a fraction of them, times the size of the step.
    #[gin(default = 0.0, limit = NonNegative)]
    pub weight_decay: f64,
    /// Take steps relative to the root mean square of the parameter.
    #[gin(default = true)]
    pub scale_parameter: bool,
    /// Use a learning rate of 1 over the root of the number of updates, at most 0.01, instead of `lr`.
    #[gin(default = true)]
    pub relative_step: bool,
    /// Let the learning rate of `relative_step` rise by 1e-6 an update at first.
    #[gin(default = false)]
    pub warmup_init: bool,
}

impl TransformersAdafactor {
    /// Returns the learning rate of the update that follows `count` others; `trainers` is the Trainer's.
    pub(super) fn rate(&self, count: i64, trainers: f32) -> Result<f64, OptimError> {
        let wrong = |reason| OptimError::Settings {
            name: "gimlet.optimizers.TransformersAdafactor",
            reason,
        };
        let updates = (count + 1) as f64;
        match (&self.lr, self.relative_step) {
            (Some(_), true) => Err(wrong("`lr` needs `relative_step = False`")),
            (None, false) => Err(wrong("without `relative_step`, bind `lr`")),
            (Some(_), false) if self.warmup_init => {
                Err(wrong("`warmup_init` needs `relative_step = True`"))
            }
            (Some(rate), false) => rate.at(count, trainers),
            (None, true) => {
                let greatest = if self.warmup_init { 1e-6 * updates } else { 1e-2 };
                Ok(updates.sqrt().recip().min(greatest))
            }
        }
    }
}

impl Rule for TransformersAdafactor {
    fn layout(&self, param: ParamShape<'_>) -> Result<StateLayout, OptimError> {
        // transformers has one parameter for each layer of a stack.
        let of_layer = |dim: &usize| !matches!(param.axes.get(*dim), Some(&("layers" | "stack")));
        let averaged: Vec<usize> = (0..param.shape.len()).filter(of_layer).collect();
        let factored = match averaged[..] {
            [.., first, second] => Some(smaller_as_rows(param.shape, first, second)),
            _ => None,
        };
        let slots = slots(param.shape, factored.as_ref(), self.beta1);
        Ok(StateLayout { slots, averaged, factored })
    }

    fn check(&self) -> Result<(), OptimError> {
        self.rate(0, 0.0).map(drop)
    }

    fn of_torch(&self) -> Option<TorchOptimizer> {
        let float = PickleValue::Float;
        let settings = vec![
            ("eps", PickleValue::Tuple(vec![float(self.eps.0), float(self.eps.1)])),
            ("clip_threshold", float(self.clip_threshold)),
            ("decay_rate", float(self.decay_rate)),
            ("beta1", self.beta1.map_or(PickleValue::None, float)),
            ("weight_decay", float(self.weight_decay)),
            ("scale_parameter", PickleValue::Bool(self.scale_parameter)),
            ("relative_step", PickleValue::Bool(self.relative_step)),
            ("warmup_init", PickleValue::Bool(self.warmup_init)),
        ];
        Some(TorchOptimizer { settings, rate: self.lr.clone() })
    }

    fn needs_whole_params(&self) -> bool {
        true
    }

    fn count_paths(&self) -> Vec<String> {
        vec!["count".to_string()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(shape: &[usize], axes: &[&'static str], expected: [&[usize]; 4]) {
        let plain = TransformersAdafactor {
            lr: None,
            eps: (1e-30, 1e-3),
            clip_threshold: 1.0,
            decay_rate: -0.8,
            beta1: None,
            weight_decay: 0.0,
            scale_parameter: true,
            relative_step: true,
            warmup_init: false,
        };
        let layout = plain.layout(ParamShape { name: "p", shape, axes }).unwrap();
        let found: Vec<&[usize]> = layout.slots.iter().map(|slot| &slot.shape[..]).collect();
        assert_eq!(found, expected, "{shape:?}");
    }

    #[test]
    fn matrices_of_any_size_are_factored_layer_by_layer() {
        check(&[2, 3], &[], [&[1], &[1], &[3], &[2]]);
        check(&[3, 2], &["embed", "mlp"], [&[1], &[1], &[3], &[2]]);
        check(&[5], &["embed"], [&[1], &[5], &[1], &[1]]);
        check(&[5, 4], &["embed", "layers"], [&[1], &[5, 4], &[1], &[1]]);
        check(&[2, 4, 3], &["embed", "layers", "mlp"], [&[1], &[1], &[4, 3], &[2, 4]]);
        check(&[], &[], [&[1], &[], &[1], &[1]]);
    }
}
