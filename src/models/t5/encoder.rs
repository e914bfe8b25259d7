//! The encoder stack.

use tch::{Kind, Tensor};

use super::spec::{MAX_DISTANCE, T5Config};
use crate::nn::{
    Attention, AttentionDims, Block, Dropout, Mlp, Params, RelativePosition, bias_from_mask, kind,
    relative_position_bias, rms_norm,
};

/// The encoder's weights in the compute dtype.
#[derive(Debug)]
pub struct Encoder {
    layers: Vec<Block<EncoderLayer>>,
    rel_embedding: Tensor,
    norm: Tensor,
    kind: Kind,
}

#[derive(Debug)]
struct EncoderLayer {
    pre_attention_layer_norm: Tensor,
    attention: Attention,
    pre_mlp_layer_norm: Tensor,
    mlp: Mlp,
}

impl Encoder {
    /// Reads the parameters under `encoder/`.
    pub fn new(config: &T5Config, params: &Params) -> Self {
        let kind = kind(config.dtype);
        let layer = |index| {
            let (config, prefix) = (config.clone(), format!("encoder/layers_{index}"));
            Block::new(config.remat_policy, params.under(&prefix), move |params| {
                EncoderLayer::new(&config, params, &prefix)
            })
        };
        Self {
            layers: (0..config.num_encoder_layers).map(layer).collect(),
            rel_embedding: params.cast("encoder/relpos_bias/rel_embedding", kind),
            norm: params.cast("encoder/encoder_norm/scale", kind),
            kind,
        }
    }

    /// Embedded tokens `[batch, length, embed]` to their encoding, of the same shape. `mask` says
    /// which pairs may meet: bool `[batch, 1, length, length]`.
    pub fn forward(&self, embedded: Tensor, mask: &Tensor, dropout: Dropout) -> Tensor {
        let length = embedded.size()[1];
        let position = relative_position_bias(
            &self.rel_embedding,
            (length, length),
            RelativePosition::Bidirectional,
            MAX_DISTANCE as i64,
        );
        // One bias for all layers: [batch, num_heads, length, length].
        let bias = bias_from_mask(mask, self.kind) + position;
        let mut hidden = dropout.apply_along_length(embedded);
        for layer in &self.layers {
            hidden = layer.forward(&[&hidden, &bias], move |layer, inputs| {
                layer.forward(inputs[0], inputs[1], dropout)
            });
        }
        // Unlike everywhere else, this mask is not shared along the length. T5X `network.py`.
        dropout.apply(rms_norm(&hidden, &self.norm))
    }
}

impl EncoderLayer {
    fn new(config: &T5Config, params: &Params, prefix: &str) -> Self {
        let kind = kind(config.dtype);
        let scale = |norm: &str| params.cast(&format!("{prefix}/{norm}/scale"), kind);
        let attention = format!("{prefix}/attention");
        Self {
            pre_attention_layer_norm: scale("pre_attention_layer_norm"),
            attention: Attention::new(params, &attention, attention_dims(config), kind),
            pre_mlp_layer_norm: scale("pre_mlp_layer_norm"),
            mlp: new_mlp(config, params, prefix),
        }
    }

    fn forward(&self, inputs: &Tensor, bias: &Tensor, dropout: Dropout) -> Tensor {
        let normal = rms_norm(inputs, &self.pre_attention_layer_norm);
        let attended = self.attention.self_attend(&normal, bias, dropout);
        let hidden = dropout.apply_along_length(attended) + inputs;
        let normal = rms_norm(&hidden, &self.pre_mlp_layer_norm);
        dropout.apply_along_length(self.mlp.forward(&normal, dropout)) + hidden
    }
}

pub(super) fn attention_dims(config: &T5Config) -> AttentionDims {
    AttentionDims {
        num_heads: config.num_heads as i64,
        head_dim: config.head_dim as i64,
        float32_logits: config.float32_attention_logits,
        scaled_logits: config.scale_attn_logits,
    }
}

pub(super) fn new_mlp(config: &T5Config, params: &Params, layer: &str) -> Mlp {
    let activations = config.mlp_activations.iter().copied();
    let projections = activations.zip(config.input_projections());
    Mlp::new(params, &format!("{layer}/mlp"), projections, kind(config.dtype))
}
