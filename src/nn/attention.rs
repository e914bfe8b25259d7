//! Multi-head attention with an additive bias, for whole sequences and for one step of decoding.

use tch::{Kind, Tensor};

use super::dropout::Dropout;
use super::fused::fused_attention;
use super::masks::AttentionBias;
use super::params::Params;
use super::profiler::{Part, part};
use super::projection::Projection;

/// How many heads, how wide, and in what precision they are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttentionDims {
    /// Number of heads.
    pub num_heads: i64,
    /// Width of one head.
    pub head_dim: i64,
    /// Whether scores are computed in float32 whatever the activations are.
    pub float32_logits: bool,
    /// Whether scores are divided by `sqrt(head_dim)`.
    pub scaled_logits: bool,
}

/// Keys and values of one attention, each `[batch, num_heads, length, head_dim]`.
#[derive(Debug)]
pub struct KeyValue {
    /// What queries are compared with.
    pub key: Tensor,
    /// What their weights average.
    pub value: Tensor,
}

/// The four projections of an attention layer, in the compute dtype.
#[derive(Debug)]
pub struct Attention {
    query: Projection, // [embed, num_heads * head_dim]
    key: Projection,
    value: Projection,
    out: Projection, // [num_heads * head_dim, embed]
    dims: AttentionDims,
}

impl Attention {
    /// Reads `{prefix}/{query,key,value,out}/kernel`.
    pub fn new(params: &Params, prefix: &str, dims: AttentionDims, kind: Kind) -> Self {
        let projection = |name: &str| Projection::new(params, &format!("{prefix}/{name}"), kind);
        let query = projection("query");
        Self {
            // T5X's contrib/gpu divides the query's input, which comes to the same.
            query: if dims.scaled_logits {
                query.over((dims.head_dim as f64).sqrt())
            } else {
                query
            },
            key: projection("key"),
            value: projection("value"),
            out: projection("out"),
            dims,
        }
    }

    /// Queries of `inputs` `[batch, length, embed]`: `[batch, num_heads, length, head_dim]`.
    pub fn queries(&self, inputs: &Tensor) -> Tensor {
        self.split_heads(&self.query.forward(inputs))
    }

    /// Keys and values of `inputs` `[batch, length, embed]`.
    pub fn key_value(&self, inputs: &Tensor) -> KeyValue {
        KeyValue {
            key: self.split_heads(&self.key.forward(inputs)),
            value: self.split_heads(&self.value.forward(inputs)),
        }
    }

    /// Attention of `inputs` `[batch, q_length, embed]` to `context` `[batch, kv_length, embed]`, which may
    /// be the same: `[batch, q_length, embed]`.
    pub fn forward(
        &self,
        inputs: &Tensor,
        context: &Tensor,
        bias: &AttentionBias,
        dropout: Dropout,
    ) -> Tensor {
        let (query, key_value) = (self.queries(inputs), self.key_value(context));
        // What drops weights falls on the values, whoever computes the attention.
        let value = dropout.apply_to_keys(&key_value.value);
        match fused_attention(&query, &key_value.key, &value, bias, &self.dims) {
            Some(joined) => self.out.forward(&joined),
            None => {
                let key_value = KeyValue { value, ..key_value };
                self.attend(&query, &key_value, bias.dense(query.kind()), Dropout::off())
            }
        }
    }

    /// The attention's result for every query, `[batch, q_length, embed]`. `bias` broadcasts to
    /// `[batch, num_heads, q_length, kv_length]`.
    pub fn attend(
        &self,
        query: &Tensor, // [batch, num_heads, q_length, head_dim]
        key_value: &KeyValue,
        bias: &Tensor,
        dropout: Dropout,
    ) -> Tensor {
        let _part = part(Part::Attention);
        let kind = query.kind();
        let score_kind = if self.dims.float32_logits { Kind::Float } else { kind };
        let key = key_value.key.to_kind(score_kind);
        // T5 does not divide by sqrt(head_dim) here: the query's initializer absorbs it, or `new` did.
        let scores = query.to_kind(score_kind).matmul(&key.transpose(-2, -1));
        // Torch's softmax of bfloat16 computes in float32 and rounds once, at the end.
        let weights = (scores + bias.to_kind(score_kind)).softmax(-1, None::<Kind>).to_kind(kind);
        let weights = dropout.apply_along_length(weights);
        let heads = weights.matmul(&key_value.value); // [batch, num_heads, q_length, head_dim]
        self.out.forward(&self.join_heads(&heads))
    }

    fn split_heads(&self, joined: &Tensor) -> Tensor {
        let (batch, length, _) = joined.size3().expect("activations are [batch, length, embed]");
        joined.view([batch, length, self.dims.num_heads, self.dims.head_dim]).transpose(1, 2)
    }

    fn join_heads(&self, heads: &Tensor) -> Tensor {
        let (batch, num_heads, length, head_dim) =
            heads.size4().expect("heads are [batch, num_heads, length, head_dim]");
        heads.transpose(1, 2).reshape([batch, length, num_heads * head_dim])
    }
}

/// Averages of the values, weighted by the softmax of products with the keys plus `bias`, which broadcasts to
/// `[batch, num_heads, q_length, kv_length]`, for every query: `[batch, num_heads, q_length, head_dim]`.
/// For a few queries a step and without gradients, as decoding needs it.
pub fn average(query: &Tensor, key_value: &KeyValue, bias: &Tensor) -> Tensor {
    let KeyValue { key, value } = key_value;
    // T5 does not divide by sqrt(head_dim): the query's initializer absorbs it.
    Tensor::scaled_dot_product_attention(query, key, value, Some(bias), 0.0, false, 1.0, false)
}
