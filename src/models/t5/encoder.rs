//! The encoder stack.

use tch::Tensor;

use super::spec::{MAX_DISTANCE, T5Config};
use crate::nn::{
    Attention, AttentionBias, AttentionDims, Block, Dropout, Mlp, Params, RelativePosition,
    add_and_norm, kind, relative_position_bias, rms_norm,
};

/// The encoder's weights in the compute dtype.
#[derive(Debug)]
pub struct Encoder {
    layers: Vec<Block<EncoderLayer>>,
    rel_embedding: Tensor,
    norm: Tensor,
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
        }
    }

    /// Maps embedded tokens `[batch, length, embed]` to their encoding, of the same shape. `mask`
    /// allows pairs to attend: bool `[batch, 1, length, length]`, or `[1, 1, 1, 1]` on CUDA.
    pub fn forward(&self, embedded: Tensor, mask: &Tensor, dropout: Dropout) -> Tensor {
        let length = embedded.size()[1];
        let position = relative_position_bias(
            &self.rel_embedding,
            (length, length),
            RelativePosition::Bidirectional,
            MAX_DISTANCE as i64,
        );
        // One bias for all layers.
        let bias = AttentionBias::new(Some(position.shallow_clone()), mask);
        let mut hidden = dropout.apply_along_length(embedded);
        for layer in &self.layers {
            hidden = match layer {
                Block::Kept(layer) => layer.forward(&hidden, &bias, dropout),
                Block::Remade(recipe) => {
                    let shared = bias.with_position(None);
                    recipe.forward(&[&hidden, &position], move |layer, inputs| {
                        let bias = shared.with_position(Some(inputs[1]));
                        layer.forward(inputs[0], &bias, dropout)
                    })
                }
            };
        }
        // Unlike the others, this mask is not shared along the length. T5X `network.py`.
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
            attention: Attention::to_itself(params, &attention, attention_dims(config), kind),
            pre_mlp_layer_norm: scale("pre_mlp_layer_norm"),
            mlp: new_mlp(config, params, prefix),
        }
    }

    fn forward(&self, inputs: &Tensor, bias: &AttentionBias, dropout: Dropout) -> Tensor {
        let normal = rms_norm(inputs, &self.pre_attention_layer_norm);
        let attended = self.attention.forward(&normal, &normal, bias, dropout);
        let (hidden, normal) = add_and_norm(inputs, &attended, &self.pre_mlp_layer_norm, dropout);
        dropout.add_along_length(&hidden, &self.mlp.forward(&normal, dropout))
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
