//! Multi-head attention with an additive bias, for whole sequences.

use tch::{Kind, Tensor};

use super::dropout::Dropout;
use super::fused::fused_attention;
use super::joined::Joined;
use super::masks::AttentionBias;
use super::profiler::{Activity, part};

/// The number and width of heads, and the precision of their scores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttentionDims {
    /// Number of heads.
    pub num_heads: i64,
    /// Width of one head.
    pub head_dim: i64,
    /// Whether scores are computed in float32, for any format of activations.
    pub float32_logits: bool,
}

/// Computes an attention: `[batch, q_length, num_heads * head_dim]`, heads joined.
pub fn attention(
    heads: &Heads,
    bias: &AttentionBias,
    dims: &AttentionDims,
    dropout: Dropout,
) -> Tensor {
    // Dropout of weights is applied to the values, for every implementation of the attention.
    let factors = dropout.mask_of_keys(&heads.value());
    fused_attention(heads, factors.as_ref(), bias, dims)
        .unwrap_or_else(|| attend(heads, factors.as_ref(), bias, dims))
}

/// Computes the same with all scores in memory.
fn attend(
    heads: &Heads,
    factors: Option<&Tensor>,
    bias: &AttentionBias,
    dims: &AttentionDims,
) -> Tensor {
    let _part = part(Activity::Attention);
    let [query, key, value] = heads.split();
    let value = factors.map_or_else(|| value.shallow_clone(), |factors| &value * factors);
    let kind = query.kind();
    let score_kind = if dims.float32_logits { Kind::Float } else { kind };
    let key = key.to_kind(score_kind);
    // T5 does not divide by sqrt(head_dim) here: the query's initializer absorbs it.
    let scores = query.to_kind(score_kind).matmul(&key.transpose(-2, -1));
    // Torch's softmax of bfloat16 computes in float32 and rounds once, at the end.
    let scores = scores + bias.dense(kind).to_kind(score_kind);
    let weights = scores.softmax(-1, None::<Kind>).to_kind(kind);
    let averages = weights.matmul(&value); // [batch, num_heads, q_length, head_dim]
    averages.transpose(1, 2).flatten(2, 3)
}

/// Queries, keys and values of an attention, as the projections return them.
#[derive(Debug)]
pub struct Heads {
    /// Each `[batch, length, num_heads * head_dim]`.
    pub joined: Joined,
    /// Number of heads.
    pub count: i64,
}

impl Heads {
    /// Returns query, key and value as views, each `[batch, num_heads, length, head_dim]`.
    pub fn split(&self) -> [Tensor; 3] {
        let parts: [Tensor; 3] = self.joined.parts().try_into().expect("query, key and value");
        parts.map(|part| {
            let (batch, length, width) =
                part.size3().expect("activations are [batch, length, embed]");
            part.view([batch, length, self.count, width / self.count]).transpose(1, 2)
        })
    }

    fn value(&self) -> Tensor {
        let [_, _, value] = self.detach().split();
        value
    }

    /// Returns the same values outside of any graph.
    pub fn detach(&self) -> Self {
        Self { joined: self.joined.detach(), count: self.count }
    }

    /// Returns uninitialized tensors of the same layout.
    pub fn empty_like(&self) -> Self {
        Self { joined: self.joined.empty_like(), count: self.count }
    }
}
