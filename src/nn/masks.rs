//! Which query may see which key, and the bias that says so to a softmax.

use std::cell::OnceCell;

use tch::{Device, Kind, Tensor};

/// What a forbidden pair adds to its score. Large enough to vanish in the softmax, yet finite: a query
/// with no key at all, a padded one, gets equal weights instead of NaN. T5X `layers.py`.
const FORBIDDEN: f64 = -1e10;

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

/// 0 where `allowed`, -1e10 elsewhere, in the scores' dtype.
pub fn bias_from_mask(allowed: &Tensor, kind: Kind) -> Tensor {
    let zeros = Tensor::zeros(allowed.size(), (kind, allowed.device()));
    zeros.masked_fill(&allowed.logical_not(), FORBIDDEN)
}

/// What an attention over whole sequences adds to its scores, shared by the layers of a stack.
#[derive(Debug)]
pub struct AttentionBias {
    /// A learned bias, `[1, num_heads, q_length, kv_length]`.
    pub position: Option<Tensor>,
    /// Which pairs may meet, bool `[batch, 1, q_length, kv_length]`.
    pub allowed: Tensor,
    dense: OnceCell<Tensor>,
}

impl AttentionBias {
    /// A bias of these two.
    pub fn new(position: Option<Tensor>, allowed: &Tensor) -> Self {
        Self { position, allowed: allowed.shallow_clone(), dense: OnceCell::new() }
    }

    /// Both as one tensor in the scores' dtype, made once: `[batch, num_heads or 1, q_length, kv_length]`.
    pub fn dense(&self, kind: Kind) -> &Tensor {
        self.dense.get_or_init(|| {
            let mask = bias_from_mask(&self.allowed, kind);
            self.position.as_ref().map_or_else(|| mask.shallow_clone(), |position| &mask + position)
        })
    }
}
