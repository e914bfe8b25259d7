//! The description of an encoder's ends. Source: transformers `modeling_bert.py`.

use crate::models::parts::{StreamDims, biased_kernel, param};
use crate::nn::{Activation, Initializer, ParamSpec};

/// The parameters before and after the layers of an encoder alone. All but norms have the same initial values; biases begin
/// with 0.
#[derive(Clone, Debug, PartialEq)]
pub struct EncoderEnds {
    /// The stream that they begin and end.
    pub stream: StreamDims,
    /// Rows of the embedding of positions, if positions are embedded: the greatest length.
    pub num_positions: Option<usize>,
    /// Rows of the embedding of types of tokens.
    pub num_types: usize,
    /// Rows of the embedding of tokens, if the encoder predicts masked tokens: that embedding then also maps to logits.
    pub predicted_tokens: Option<usize>,
    /// The activation before the logits of masked tokens.
    pub activation: Activation,
    /// The initial values of embeddings and kernels.
    pub initializer: Initializer,
}

/// Paths of its parameters.
pub(super) mod path {
    /// The embedding of positions, `[positions, embed]`.
    pub const POSITIONS: &str = "position_embedder/embedding";
    /// The embedding of types, `[types, embed]`.
    pub const TYPES: &str = "type_embedder/embedding";
    /// The norm of the sum of embeddings.
    pub const NORM: &str = "embedder_norm";
    /// The projection before the logits of masked tokens, `[embed, embed]`.
    pub const TRANSFORM: &str = "masked_tokens/dense";
    /// The norm of its activation.
    pub const TRANSFORM_NORM: &str = "masked_tokens/norm";
    /// The bias of the logits of masked tokens, `[vocab]`.
    pub const TOKEN_BIAS: &str = "masked_tokens/bias";
}

/// The share of tokens that BERT masks, of which alone logits are computed.
const PREDICTED_SHARE: f64 = 0.15;

impl EncoderEnds {
    /// About how many of so many positions have logits of tokens.
    pub fn num_predicted(&self, positions: usize) -> usize {
        self.predicted_tokens.map_or(0, |_| (positions as f64 * PREDICTED_SHARE).ceil() as usize)
    }

    /// The parameters of both ends.
    pub fn params(&self) -> Vec<ParamSpec> {
        let (embed, stream) = (self.stream.emb_dim, &self.stream);
        let table = |name: &str, rows, axis| {
            param(name.to_string(), vec![rows, embed], vec![axis, "embed"], self.initializer)
        };
        let mut tree = vec![table(path::TYPES, self.num_types, "abspos_buckets")];
        tree.extend(self.num_positions.map(|rows| table(path::POSITIONS, rows, "abspos_buckets")));
        tree.extend(stream.norm_params(path::NORM));
        if let Some(vocab_size) = self.predicted_tokens {
            let (shape, axes) = ([embed, embed], ["embed", "pooled"]);
            tree.extend(biased_kernel(path::TRANSFORM, shape, axes, self.initializer));
            tree.extend(stream.norm_params(path::TRANSFORM_NORM));
            let bias = path::TOKEN_BIAS.to_string();
            tree.push(param(bias, vec![vocab_size], vec!["vocab"], Initializer::ZEROS));
        }
        tree
    }
}
