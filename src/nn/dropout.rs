//! Dropout whose mask may be shared along an axis, as T5X shares it along the length.

use tch::Tensor;

use super::profiler::{Activity, part};

/// A dropout rate, or none, and with it the kind of a pass: training or not. Masks come from torch's generator, which the caller seeds for each step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Dropout {
    rate: f64,
    is_training: bool,
    /// Whether positions share masks.
    is_shared: bool,
    /// The part of a larger batch, of equal parts, that is at hand: its number, and how many there are.
    part: (i64, i64),
    /// The same of heads and of features between two projections.
    columns: (i64, i64),
    /// The same of the length of the stream between blocks.
    length: (i64, i64),
}

impl Dropout {
    const NONE: Self = Self {
        rate: 0.0,
        is_training: false,
        is_shared: true,
        part: (0, 1),
        columns: (0, 1),
        length: (0, 1),
    };

    /// Creates a dropout that drops nothing, for evaluation and decoding.
    pub fn off() -> Self {
        Self::NONE
    }

    /// Creates a dropout with probability `rate` in `0..1` that scales the rest by
    /// `1 / (1 - rate)`.
    pub fn train(rate: f64) -> Self {
        assert!((0.0..1.0).contains(&rate), "a dropout rate lies in 0..1, found {rate}");
        Self { rate, is_training: true, ..Self::NONE }
    }

    /// The same dropout with a mask of its own for each position. The queries of an attention still share the mask of
    /// their weights.
    pub fn of_each_position(self) -> Self {
        Self { is_shared: false, ..self }
    }

    /// The same dropout for one of `count` parts of a batch: its masks are this part's rows of the
    /// masks of the whole batch, so that results do not depend on the division.
    pub fn of_part(self, index: usize, count: usize) -> Self {
        Self { part: (index as i64, count as i64), ..self }
    }

    /// The same dropout for one of `count` processes that divide heads and feed-forward blocks: masks of those are this
    /// one's part of the masks of all.
    pub fn of_columns(self, index: usize, count: usize) -> Self {
        Self { columns: (index as i64, count as i64), ..self }
    }

    /// The same dropout for one of `count` processes that divide the stream between blocks along its length.
    pub fn of_length(self, index: usize, count: usize) -> Self {
        Self { length: (index as i64, count as i64), ..self }
    }

    /// Whether the pass is one of training, even if nothing is dropped.
    pub fn is_training(self) -> bool {
        self.is_training
    }

    /// The number of equal parts of the batch of which one is at hand.
    pub fn parts(self) -> usize {
        self.part.1 as usize
    }

    /// The same with another rate in training.
    pub fn with_rate(self, rate: f64) -> Self {
        match self.is_training {
            true => Self { rate, ..self },
            false => self,
        }
    }

    /// Returns `inputs`, whose first axis the parts of the batch divide, in training times uniform noise between
    /// `1 - amplitude` and `1 + amplitude`.
    pub fn noisy(self, inputs: Tensor, amplitude: f64) -> Tensor {
        if !self.is_training || amplitude == 0.0 {
            return inputs;
        }
        let (mut whole, (index, count)) = (inputs.size(), self.part);
        let rows = whole[0];
        whole[0] *= count;
        let mut noise = Tensor::empty(&whole, (inputs.kind(), inputs.device()));
        let noise = noise.uniform_(1.0 - amplitude, 1.0 + amplitude);
        let own = noise.narrow(0, index * rows, rows);
        // The backward pass keeps no other part.
        inputs * if count == 1 { own } else { own.copy() }
    }

    /// Whether anything is dropped.
    fn is_off(self) -> bool {
        self.rate == 0.0
    }

    /// Returns `inputs` with a mask of their own shape.
    pub fn apply(self, inputs: Tensor) -> Tensor {
        let _part = part(Activity::Elementwise);
        match self.mask(&inputs, &inputs.size(), None) {
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

    /// Returns `inputs` `[.., length, features]` between two projections, of whose features each process may hold a
    /// part, as [`Dropout::apply_along_length`] does.
    pub fn apply_to_columns(self, inputs: Tensor) -> Tensor {
        let _part = part(Activity::Elementwise);
        let shape = self.shape(&inputs);
        match self.mask(&inputs, &shape, Some((shape.len() - 1, self.columns))) {
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
        let shape = self.shape(inputs);
        self.mask(inputs, &shape, (!self.is_shared).then(|| (shape.len() - 2, self.length)))
    }

    /// The shape of masks of activations: with an extent of 1 for the length, their last axis but one, if positions share
    /// them.
    fn shape(self, inputs: &Tensor) -> Vec<i64> {
        let mut shape = inputs.size();
        let length_axis = shape.len() - 2;
        if self.is_shared {
            shape[length_axis] = 1;
        }
        shape
    }

    /// Returns factors of `value` `[batch, num_heads, kv_length, head_dim]`, so that attention
    /// weights need no mask of their own. The queries share the mask of weights, so it is one
    /// number for each key, `[batch, num_heads, kv_length, 1]`, if anything is dropped.
    pub fn mask_of_keys(self, value: &Tensor) -> Option<Tensor> {
        let _part = part(Activity::Attention);
        let (batch, num_heads, length, _) = value.size4().expect("values have four axes");
        self.mask(value, &[batch, num_heads, length, 1], Some((1, self.columns)))
    }

    /// Draws factors of that shape; the processes may divide an axis, of which the part `divided` is here.
    fn mask(
        self,
        inputs: &Tensor,
        shape: &[i64],
        divided: Option<(usize, (i64, i64))>,
    ) -> Option<Tensor> {
        if self.is_off() {
            return None;
        }
        let keep = 1.0 - self.rate;
        let parts = [Some((0, self.part)), divided];
        let mut whole = shape.to_vec();
        parts.iter().flatten().for_each(|&(axis, (_, count))| whole[axis] *= count);
        let mask = Tensor::empty(&whole, (inputs.kind(), inputs.device())).bernoulli_float_(keep);
        let own = parts.iter().flatten().fold(mask, |mask, &(axis, (index, _))| {
            mask.narrow(axis as i64, index * shape[axis], shape[axis])
        });
        Some(own / keep)
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
    fn parts_of_a_batch_have_the_masks_of_the_whole() {
        let _held = crate::nn::GENERATOR.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let ones = Tensor::ones([6, 5, 40], (Kind::Float, Device::Cpu));
        let drop = |dropout: Dropout, rows: Tensor| {
            tch::manual_seed(3);
            dropout.apply_along_length(rows)
        };
        let whole = drop(Dropout::train(0.25), ones.shallow_clone());
        let part = |index: i64| {
            let rows = ones.narrow(0, 2 * index, 2);
            drop(Dropout::train(0.25).of_part(index as usize, 3), rows)
        };
        assert_eq!(Tensor::cat(&[part(0), part(1), part(2)], 0), whole);
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
