//! Masks of the keys that each query may attend to, and the bias of a softmax for them.

use std::cell::OnceCell;
use std::sync::{Arc, Mutex, PoisonError};

use tch::{Device, Kind, Tensor};

use super::runs::Runs;

/// Returns the addend for the score of a forbidden pair, in the scores' dtype. Large enough to vanish in the softmax, yet finite:
/// a query without any key, which is padding, gets equal weights instead of NaN. T5X `layers.py`. In float16, whose largest number
/// is 65504, it is smaller, so that its sum with a score stays finite.
pub(super) fn forbidden(kind: Kind) -> f64 {
    if kind == Kind::Half { -3e4 } else { -1e10 }
}

/// Numbers that kernels read at once, in the narrowest dtype.
const ALIGNMENT: i64 = 8;

/// Pairs of a real query and a real key: bool `[batch, q_length]`, `[batch, kv_length]` to bool
/// `[batch, 1, q_length, kv_length]`.
pub fn pairs(query: &Tensor, key: &Tensor) -> Tensor {
    query.unsqueeze(-1).logical_and(&key.unsqueeze(-2)).unsqueeze(1)
}

/// Pairs of one packed example: int64 `[batch, q_length]`, `[batch, kv_length]` to bool
/// `[batch, 1, q_length, kv_length]`.
pub fn same_segment(query: &Tensor, key: &Tensor) -> Tensor {
    query.unsqueeze(-1).eq_tensor(&key.unsqueeze(-2)).unsqueeze(1)
}

/// Pairs whose key is not after the query: bool `[1, 1, length, length]`.
pub fn causal_mask(length: i64, device: Device) -> Tensor {
    Tensor::ones([1, 1, length, length], (Kind::Bool, device)).tril(0)
}

/// Positions of a decoder's inputs that are not padding: the first one, and those before or at a token; 0 also begins each
/// example of a packed row. int64 `[batch, length]` to bool. Source: flaxformer `dense_attention.py`,
/// `get_decoder_logit_mask`.
pub fn decoder_positions(inputs: &Tensor) -> Tensor {
    let length = inputs.size()[1];
    let is_token = inputs.gt(0);
    let before_token = is_token.narrow(1, 1, length - 1).constant_pad_nd([0, 1]);
    let positions = Tensor::arange(length, (Kind::Int64, inputs.device()));
    is_token.logical_or(&before_token).logical_or(&positions.eq(0))
}

/// 0 where `allowed`, -1e10 elsewhere (-30,000 in float16), in the scores' dtype.
pub fn bias_from_mask(allowed: &Tensor, kind: Kind) -> Tensor {
    let zeros = Tensor::zeros(allowed.size(), (kind, allowed.device()));
    zeros.masked_fill(&allowed.logical_not(), forbidden(kind))
}

/// The addend for the scores of an attention over whole sequences, shared by the layers of a stack.
#[derive(Debug)]
pub struct AttentionBias {
    /// A learned bias, `[1, num_heads, q_length, kv_length]`, of the distance between query and key alone: kernels over runs
    /// read it from the start for each of them.
    pub position: Option<Tensor>,
    /// Mask of allowed pairs, bool `[batch or 1, 1, q_length or 1, kv_length or 1]`; on CPUs of all
    /// rows and keys.
    pub allowed: Tensor,
    /// The same as runs, if the host knows them.
    pub runs: Option<Runs>,
    dense: OnceCell<Tensor>,
    aligned: Arc<Mutex<Option<Tensor>>>,
}

impl AttentionBias {
    /// Creates a bias of these two.
    pub fn new(position: Option<Tensor>, allowed: &Tensor) -> Self {
        Self {
            position,
            allowed: allowed.shallow_clone(),
            runs: None,
            dense: OnceCell::new(),
            aligned: Arc::default(),
        }
    }

    /// Adds runs, for kernels without masks.
    pub fn over(self, runs: Option<Runs>) -> Self {
        Self { runs, ..self }
    }

    /// Returns the same bias for a layer that has another handle of the position bias, or a leaf
    /// with its values.
    pub fn with_position(&self, position: Option<&Tensor>) -> Self {
        Self {
            position: position.map(Tensor::shallow_clone),
            allowed: self.allowed.shallow_clone(),
            runs: self.runs.clone(),
            dense: OnceCell::new(),
            aligned: Arc::clone(&self.aligned),
        }
    }

    /// Returns both as one tensor in the scores' dtype, made once:
    /// `[batch, num_heads or 1, q_length, kv_length]`.
    pub fn dense(&self, kind: Kind) -> &Tensor {
        self.dense.get_or_init(|| {
            let mask = bias_from_mask(&self.allowed, kind);
            self.position.as_ref().map_or_else(|| mask.shallow_clone(), |position| &mask + position)
        })
    }

    /// Returns both as one tensor for a kernel, outside of any graph, made once for all layers: the
    /// same as [`AttentionBias::dense`], except that a query without allowed keys attends to all of
    /// them. The kernel's backward pass could not distinguish its weights from the rest of -1e10.
    /// Rows lie 16 bytes apart.
    pub fn aligned(&self, kind: Kind) -> Tensor {
        let mut made = self.aligned.lock().unwrap_or_else(PoisonError::into_inner);
        made.get_or_insert_with(|| tch::no_grad(|| self.make_aligned(kind))).shallow_clone()
    }

    fn make_aligned(&self, kind: Kind) -> Tensor {
        let meets_none = self.allowed.any_dim(-1, true).logical_not(); // [.., q_length or 1, 1]
        let mask = bias_from_mask(&self.allowed.logical_or(&meets_none), kind);
        let bias = match &self.position {
            Some(position) => mask + position.detach(),
            None => mask,
        };
        let (mut size, keys) = (bias.size(), bias.size()[3]);
        if keys % ALIGNMENT == 0 {
            return bias.contiguous();
        }
        size[3] = (keys / ALIGNMENT + 1) * ALIGNMENT;
        let rows = Tensor::zeros(size, (kind, bias.device())).narrow(3, 0, keys);
        rows.shallow_clone().copy_(&bias);
        rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_aligned_bias_is_the_dense_one_in_rows_that_lie_apart() {
        let _held = crate::nn::GENERATOR.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let ids = Tensor::from_slice2(&[[1i64, 1, 1, 2, 2], [1, 1, 2, 2, 0]]);
        let real = ids.gt(0);
        let allowed = pairs(&real, &real).logical_and(&same_segment(&ids, &ids));
        let position = Tensor::randn([1, 3, 5, 5], (Kind::Float, Device::Cpu));
        let bias = AttentionBias::new(Some(position.shallow_clone()), &allowed);
        let aligned = bias.aligned(Kind::Float);
        assert_eq!(aligned.size(), [2, 3, 5, 5]);
        assert_eq!(aligned.stride(), [120, 40, 8, 1]);
        let read = real.unsqueeze(1).unsqueeze(-1);
        let found = (&aligned - bias.dense(Kind::Float)) * &read;
        assert_eq!(found.abs().max().double_value(&[]), 0.0);
        // The padded query of the second row.
        assert_eq!(aligned.select(2, 4).select(0, 1), position.select(2, 4).select(0, 0));
        let shared = bias.with_position(None).aligned(Kind::Float);
        assert_eq!(shared.data_ptr(), aligned.data_ptr());
    }

    #[test]
    fn a_mask_for_everything_is_as_large_as_what_it_is_added_to() {
        let _held = crate::nn::GENERATOR.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let all = Tensor::ones([1, 1, 1, 1], (Kind::Bool, Device::Cpu));
        for length in [16, 14] {
            // The position bias may have any memory layout, which depends on how it was made.
            let position = Tensor::randn([1, 2, length, 3], (Kind::Float, Device::Cpu));
            let position = position.transpose(2, 3);
            let bias = AttentionBias::new(Some(position.shallow_clone()), &all);
            let aligned = bias.aligned(Kind::Float);
            assert_eq!(aligned, position);
            assert_eq!(aligned.stride(), [96, 48, 16, 1]);
        }
    }
}
