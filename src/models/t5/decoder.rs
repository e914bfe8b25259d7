//! The decoder stack over whole targets; `step` processes one position at a time.

use tch::Tensor;

use super::encoder::{attention_dims, new_mlp};
use super::spec::{MAX_DISTANCE, T5Config};
use crate::nn::{
    Attention, AttentionBias, Block, Dropout, Mlp, Params, RelativePosition, Runs, add_and_norm,
    kind, relative_position_bias, rms_norm,
};

/// The decoder's weights in the compute dtype.
#[derive(Debug)]
pub struct Decoder {
    layers: Vec<Block<DecoderLayer>>,
    rel_embedding: Tensor,
    norm: Tensor,
}

#[derive(Debug)]
struct DecoderLayer {
    pre_self_attention_layer_norm: Tensor,
    self_attention: Attention,
    pre_cross_attention_layer_norm: Tensor,
    encoder_decoder_attention: Attention,
    pre_mlp_layer_norm: Tensor,
    mlp: Mlp,
}

/// The encoding, and masks of the pairs that may attend to each other, bool.
#[derive(Debug)]
pub struct DecoderContext {
    /// `[batch, inputs_length, embed]`
    pub encoded: Tensor,
    /// `[batch, 1, targets_length, targets_length]`; of one row on CUDA if all rows are alike.
    pub self_mask: Tensor,
    /// `[batch, 1, targets_length, inputs_length]`
    pub cross_mask: Tensor,
    /// The same as runs, if the host knows them.
    pub cross_runs: Option<Runs>,
}

impl Decoder {
    /// Reads the parameters under `decoder/`, except the logits' kernel.
    pub fn new(config: &T5Config, params: &Params) -> Self {
        let kind = kind(config.dtype);
        let layer = |index| {
            let (config, prefix) = (config.clone(), format!("decoder/layers_{index}"));
            Block::new(config.remat_policy, params.under(&prefix), move |params| {
                DecoderLayer::new(&config, params, &prefix)
            })
        };
        Self {
            layers: (0..config.num_decoder_layers).map(layer).collect(),
            rel_embedding: params.cast("decoder/relpos_bias/rel_embedding", kind),
            norm: params.cast("decoder/decoder_norm/scale", kind),
        }
    }

    /// Maps embedded targets `[batch, targets_length, embed]` to the inputs of the logits, same
    /// shape.
    pub fn forward(&self, embedded: Tensor, context: &DecoderContext, dropout: Dropout) -> Tensor {
        let position = self.position_bias(embedded.size()[1]);
        let self_bias = AttentionBias::new(Some(position.shallow_clone()), &context.self_mask);
        let cross_bias =
            AttentionBias::new(None, &context.cross_mask).over(context.cross_runs.clone());
        let mut hidden = dropout.apply_along_length(embedded);
        for layer in &self.layers {
            hidden = match layer {
                Block::Kept(layer) => {
                    layer.forward(&hidden, &context.encoded, [&self_bias, &cross_bias], dropout)
                }
                Block::Remade(recipe) => {
                    let (own, cross) =
                        (self_bias.with_position(None), cross_bias.with_position(None));
                    let inputs = [&hidden, &context.encoded, &position];
                    recipe.forward(&inputs, move |layer, inputs| {
                        let own = own.with_position(Some(inputs[2]));
                        layer.forward(inputs[0], inputs[1], [&own, &cross], dropout)
                    })
                }
            };
        }
        dropout.apply_along_length(rms_norm(&hidden, &self.norm))
    }

    fn position_bias(&self, length: i64) -> Tensor {
        relative_position_bias(
            &self.rel_embedding,
            (length, length),
            RelativePosition::Causal,
            MAX_DISTANCE as i64,
        )
    }
}

impl DecoderLayer {
    fn new(config: &T5Config, params: &Params, prefix: &str) -> Self {
        let kind = kind(config.dtype);
        let scale = |norm: &str| params.cast(&format!("{prefix}/{norm}/scale"), kind);
        let (dims, name) = (attention_dims(config), |name: &str| format!("{prefix}/{name}"));
        let cross = name("encoder_decoder_attention");
        Self {
            pre_self_attention_layer_norm: scale("pre_self_attention_layer_norm"),
            self_attention: Attention::to_itself(params, &name("self_attention"), dims, kind),
            pre_cross_attention_layer_norm: scale("pre_cross_attention_layer_norm"),
            encoder_decoder_attention: Attention::to_context(params, &cross, dims, kind),
            pre_mlp_layer_norm: scale("pre_mlp_layer_norm"),
            mlp: new_mlp(config, params, prefix),
        }
    }

    fn forward(
        &self,
        inputs: &Tensor,
        encoded: &Tensor,
        [self_bias, cross_bias]: [&AttentionBias; 2],
        dropout: Dropout,
    ) -> Tensor {
        // A layer's own view: its gradients are summed before those of other layers are added to
        // them, in the same way as when the layer is recomputed.
        let encoded = &encoded.view_as(encoded);
        let normal = rms_norm(inputs, &self.pre_self_attention_layer_norm);
        let attended = self.self_attention.forward(&normal, &normal, self_bias, dropout);
        let norm = &self.pre_cross_attention_layer_norm;
        let (hidden, normal) = add_and_norm(inputs, &attended, norm, dropout);
        let cross = &self.encoder_decoder_attention;
        let attended = cross.forward(&normal, encoded, cross_bias, dropout);
        self.feed_forward(&hidden, &attended, dropout)
    }

    /// Adds the last attention's result to the residual stream, then the feed-forward block's.
    fn feed_forward(&self, stream: &Tensor, attended: &Tensor, dropout: Dropout) -> Tensor {
        let (hidden, normal) = add_and_norm(stream, attended, &self.pre_mlp_layer_norm, dropout);
        dropout.add_along_length(&hidden, &self.mlp.forward(&normal, dropout))
    }
}
