//! Multi-head attention with an additive bias, for whole sequences.

use tch::{Kind, Tensor};

use super::dropout::Dropout;
use super::fused::fused_attention;
use super::joined::Joined;
use super::masks::AttentionBias;
use super::params::Params;
use super::profiler::{Activity, part};
use super::projection::{Projection, Projections};

/// The number and width of heads, and the precision of their scores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttentionDims {
    /// Number of heads.
    pub num_heads: i64,
    /// Width of one head.
    pub head_dim: i64,
    /// Whether scores are computed in float32, for any format of activations.
    pub float32_logits: bool,
    /// Whether scores are divided by `sqrt(head_dim)`.
    pub scaled_logits: bool,
}

/// The four projections of an attention layer, in the compute dtype. Those with the same input are
/// one product.
#[derive(Debug)]
pub struct Attention {
    inputs: Projections, // query, and key and value where they are the inputs': [embed, num_heads * head_dim]
    context: Option<Projections>, // key and value
    out: Projection,     // [num_heads * head_dim, embed]
    dims: AttentionDims,
}

impl Attention {
    /// Creates self-attention. Reads `{prefix}/{query,key,value,out}/kernel`.
    pub fn to_itself(params: &Params, prefix: &str, dims: AttentionDims, kind: Kind) -> Self {
        let [query, key, value, out] = projections(params, prefix, dims, kind);
        Self { inputs: Projections::new(vec![query, key, value]), context: None, out, dims }
    }

    /// Creates cross-attention, with parameters of the same names.
    pub fn to_context(params: &Params, prefix: &str, dims: AttentionDims, kind: Kind) -> Self {
        let [query, key, value, out] = projections(params, prefix, dims, kind);
        let context = Some(Projections::new(vec![key, value]));
        Self { inputs: Projections::new(vec![query]), context, out, dims }
    }

    /// Computes the attention of `inputs` `[batch, q_length, embed]` to `context` `[batch,
    /// kv_length, embed]`, which are the same tensor in self-attention: `[batch, q_length, embed]`.
    pub fn forward(
        &self,
        inputs: &Tensor,
        context: &Tensor,
        bias: &AttentionBias,
        dropout: Dropout,
    ) -> Tensor {
        let heads = self.heads(inputs, context);
        // Dropout of weights is applied to the values, for every implementation of the attention.
        let factors = dropout.mask_of_keys(&heads.value());
        match fused_attention(&heads, factors.as_ref(), bias, &self.dims) {
            Some(joined) => self.out.forward(&joined),
            None => self.attend(&heads, factors.as_ref(), bias),
        }
    }

    fn heads(&self, inputs: &Tensor, context: &Tensor) -> Heads {
        let mut wholes = self.inputs.forward(inputs).into_wholes();
        if let Some(projections) = &self.context {
            wholes.extend(projections.forward(context).into_wholes());
        }
        Heads { joined: Joined::new(wholes, 3), count: self.dims.num_heads }
    }

    /// Computes the same with all scores in memory: `[batch, q_length, embed]`.
    fn attend(&self, heads: &Heads, factors: Option<&Tensor>, bias: &AttentionBias) -> Tensor {
        let _part = part(Activity::Attention);
        let [query, key, value] = heads.split();
        let value = factors.map_or_else(|| value.shallow_clone(), |factors| &value * factors);
        let kind = query.kind();
        let score_kind = if self.dims.float32_logits { Kind::Float } else { kind };
        let key = key.to_kind(score_kind);
        // T5 does not divide by sqrt(head_dim) here: the query's initializer absorbs it, or `projections` did.
        let scores = query.to_kind(score_kind).matmul(&key.transpose(-2, -1));
        // Torch's softmax of bfloat16 computes in float32 and rounds once, at the end.
        let scores = scores + bias.dense(kind).to_kind(score_kind);
        let weights = scores.softmax(-1, None::<Kind>).to_kind(kind);
        let averages = weights.matmul(&value); // [batch, num_heads, q_length, head_dim]
        self.out.forward(&averages.transpose(1, 2).flatten(2, 3))
    }
}

/// Query, key, value and out.
fn projections(params: &Params, prefix: &str, dims: AttentionDims, kind: Kind) -> [Projection; 4] {
    let projection = |name: &str| Projection::new(params, &format!("{prefix}/{name}"), kind);
    let query = projection("query");
    // T5X's contrib/gpu divides the query's input, which gives the same result.
    let query = if dims.scaled_logits { query.over((dims.head_dim as f64).sqrt()) } else { query };
    [query, projection("key"), projection("value"), projection("out")]
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
