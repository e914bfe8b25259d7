//! Dropout whose mask may be shared along an axis, as T5X shares it along the length.

use tch::Tensor;

use super::profiler::{Activity, part};

/// A dropout rate, or none. Masks come from torch's generator, which the caller seeds for each step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Dropout {
    rate: f64,
}

impl Dropout {
    /// Creates a dropout that drops nothing, for evaluation and decoding.
    pub fn off() -> Self {
        Self { rate: 0.0 }
    }

    /// Creates a dropout with probability `rate` in `0..1` that scales the rest by
    /// `1 / (1 - rate)`.
    pub fn train(rate: f64) -> Self {
        assert!((0.0..1.0).contains(&rate), "a dropout rate lies in 0..1, found {rate}");
        Self { rate }
    }

    /// Whether anything is dropped.
    fn is_off(self) -> bool {
        self.rate == 0.0
    }

    /// Returns `inputs` with a mask of their own shape.
    pub fn apply(self, inputs: Tensor) -> Tensor {
        let _part = part(Activity::Elementwise);
        match self.mask(&inputs, &inputs.size()) {
            Some(mask) => inputs * mask,
            None => inputs,
        }
    }

    /// Returns `inputs` with one mask for all positions of the last axis but one: the length, or
    /// the query positions of attention weights.
    pub fn apply_along_length(self, inputs: Tensor) -> Tensor {
        let _part = part(Activity::Elementwise);
        match self.mask_along_length(&inputs) {
            Some(mask) => inputs * mask,
            None => inputs,
        }
    }

    /// Returns `residual` plus `branch`, with dropout on the latter as by
    /// [`Dropout::apply_along_length`].
    pub fn add_along_length(self, residual: &Tensor, branch: &Tensor) -> Tensor {
        let _part = part(Activity::Elementwise);
        match self.mask_along_length(branch) {
            Some(mask) => residual.addcmul(branch, &mask),
            None => residual + branch,
        }
    }

    /// Returns the factor of [`Dropout::apply_along_length`], if anything is dropped: 0, or the
    /// scale of the rest, of extent 1 in the last axis but one.
    pub fn mask_along_length(self, inputs: &Tensor) -> Option<Tensor> {
        let mut shape = inputs.size();
        let length_axis = shape.len() - 2;
        shape[length_axis] = 1;
        self.mask(inputs, &shape)
    }

    /// Returns factors of `value` `[batch, num_heads, kv_length, head_dim]`, so that attention
    /// weights need no mask of their own. The queries share the mask of weights, so it is one
    /// number for each key, `[batch, num_heads, kv_length, 1]`, if anything is dropped.
    pub fn mask_of_keys(self, value: &Tensor) -> Option<Tensor> {
        let _part = part(Activity::Attention);
        let (batch, num_heads, length, _) = value.size4().expect("values have four axes");
        self.mask(value, &[batch, num_heads, length, 1])
    }

    fn mask(self, inputs: &Tensor, shape: &[i64]) -> Option<Tensor> {
        if self.is_off() {
            return None;
        }
        let keep = 1.0 - self.rate;
        let mask = Tensor::empty(shape, (inputs.kind(), inputs.device())).bernoulli_float_(keep);
        Some(mask / keep)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tch::{Device, Kind};

    #[test]
    fn the_mask_is_shared_along_the_length_and_keeps_the_mean() {
        let _held = crate::nn::GENERATOR.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        tch::manual_seed(0);
        let ones = Tensor::ones([8, 5, 1000], (Kind::Float, Device::Cpu));
        let dropped = Dropout::train(0.25).apply_along_length(ones);
        assert!(dropped.select(1, 0) == dropped.select(1, 4));
        assert!((dropped.mean(Kind::Float).double_value(&[]) - 1.0).abs() < 0.03);
    }

    #[test]
    fn a_full_mask_differs_along_the_length() {
        let _held = crate::nn::GENERATOR.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        tch::manual_seed(0);
        let ones = Tensor::ones([2, 5, 100], (Kind::Float, Device::Cpu));
        let dropped = Dropout::train(0.25).apply(ones);
        assert!(dropped.select(1, 0) != dropped.select(1, 4));
    }
}
