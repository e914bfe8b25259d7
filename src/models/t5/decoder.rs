//! The decoder stack: over whole targets, and one position at a time with cached keys and values.

use tch::{Kind, Tensor};

use super::encoder::{attention_dims, new_mlp};
use super::spec::{MAX_DISTANCE, T5Config};
use crate::nn::{
    Attention, AttentionBias, Block, Dropout, KeyValue, Mlp, Params, RelativePosition,
    add_and_norm, bias_from_mask, kind, relative_position_bias, rms_norm,
};

/// The decoder's weights in the compute dtype.
#[derive(Debug)]
pub struct Decoder {
    layers: Vec<Block<DecoderLayer>>,
    rel_embedding: Tensor,
    norm: Tensor,
    kind: Kind,
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

/// Which pairs may meet, bool, and the encoding they read.
#[derive(Debug)]
pub struct DecoderContext {
    /// `[batch, inputs_length, embed]`
    pub encoded: Tensor,
    /// `[batch, 1, targets_length, targets_length]`
    pub self_mask: Tensor,
    /// `[batch, 1, targets_length, inputs_length]`
    pub cross_mask: Tensor,
}

impl Decoder {
    /// Reads the parameters under `decoder/`, but for the logits' kernel.
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
            kind,
        }
    }

    /// Embedded targets `[batch, targets_length, embed]` to what the logits are made of, same shape.
    pub fn forward(&self, embedded: Tensor, context: &DecoderContext, dropout: Dropout) -> Tensor {
        let position = self.position_bias(embedded.size()[1]);
        let self_bias = AttentionBias::new(Some(position.shallow_clone()), &context.self_mask);
        let cross_bias = AttentionBias::new(None, &context.cross_mask);
        let mut hidden = dropout.apply_along_length(embedded);
        for layer in &self.layers {
            hidden = match layer {
                Block::Kept(layer) => {
                    layer.forward(&hidden, &context.encoded, [&self_bias, &cross_bias], dropout)
                }
                Block::Remade(recipe) => {
                    let DecoderContext { encoded, self_mask, cross_mask } = context;
                    let inputs = [&hidden, encoded, &position, self_mask, cross_mask];
                    recipe.forward(&inputs, move |layer, inputs| {
                        let own = AttentionBias::new(Some(inputs[2].shallow_clone()), inputs[3]);
                        let cross = AttentionBias::new(None, inputs[4]);
                        layer.forward(inputs[0], inputs[1], [&own, &cross], dropout)
                    })
                }
            };
        }
        dropout.apply_along_length(rms_norm(&hidden, &self.norm))
    }

    /// A cache for decoding up to `max_length` positions of `beams` hypotheses per row of `encoded`
    /// `[batch, inputs_length, embed]`; `real` says which inputs are not padding, bool `[batch,
    /// inputs_length]`.
    pub fn new_cache(
        &self,
        encoded: &Tensor,
        real: &Tensor,
        beams: i64,
        max_length: i64,
    ) -> DecoderCache {
        let batch = encoded.size()[0];
        let layers = self.layers.iter().map(|layer| {
            let cross = layer.kept().encoder_decoder_attention.key_value(encoded);
            let (_, num_heads, _, head_dim) = cross.key.size4().expect("keys have four axes");
            let size = [batch * beams, num_heads, max_length, head_dim];
            let zeros = || Tensor::zeros(size, (self.kind, encoded.device()));
            LayerCache { own: KeyValue { key: zeros(), value: zeros() }, cross }
        });
        let cross_mask = real.unsqueeze(1).unsqueeze(1); // [batch, 1, 1, inputs_length]
        DecoderCache {
            layers: layers.collect(),
            position_bias: self.position_bias(max_length),
            cross_bias: bias_from_mask(&cross_mask, self.kind),
            length: 0,
        }
    }

    /// The next position of every hypothesis: `[batch * beams, 1, embed]` to the same.
    pub fn step(&self, embedded: Tensor, cache: &mut DecoderCache) -> Tensor {
        let index = cache.length;
        cache.length += 1;
        // The query's row of the bias, for the keys so far: [1, num_heads, 1, index + 1].
        let self_bias = cache.position_bias.narrow(2, index, 1).narrow(3, 0, index + 1);
        let mut hidden = embedded;
        for (layer, layer_cache) in self.layers.iter().zip(&mut cache.layers) {
            hidden = layer.kept().step(hidden, layer_cache, index, [&self_bias, &cache.cross_bias]);
        }
        rms_norm(&hidden, &self.norm)
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
        let attention = |name: &str| {
            Attention::new(params, &format!("{prefix}/{name}"), attention_dims(config), kind)
        };
        Self {
            pre_self_attention_layer_norm: scale("pre_self_attention_layer_norm"),
            self_attention: attention("self_attention"),
            pre_cross_attention_layer_norm: scale("pre_cross_attention_layer_norm"),
            encoder_decoder_attention: attention("encoder_decoder_attention"),
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
        // A layer's own view: its gradients are summed before those of other layers are added to them,
        // as they are where the layer is computed again.
        let encoded = &encoded.view_as(encoded);
        let normal = rms_norm(inputs, &self.pre_self_attention_layer_norm);
        let attended = self.self_attention.forward(&normal, &normal, self_bias, dropout);
        let norm = &self.pre_cross_attention_layer_norm;
        let (hidden, normal) = add_and_norm(inputs, &attended, norm, dropout);
        let cross = &self.encoder_decoder_attention;
        let attended = cross.forward(&normal, encoded, cross_bias, dropout);
        self.feed_forward(&hidden, &attended, dropout)
    }

    /// Everything is `[batch * beams, 1, embed]`.
    fn step(
        &self,
        inputs: Tensor,
        cache: &mut LayerCache,
        index: i64,
        [self_bias, cross_bias]: [&Tensor; 2],
    ) -> Tensor {
        let normal = rms_norm(&inputs, &self.pre_self_attention_layer_norm);
        let own = cache.extend(index, self.self_attention.key_value(&normal));
        let query = self.self_attention.queries(&normal);
        let attended = self.self_attention.attend(&query, &own, self_bias, Dropout::off());
        let norm = &self.pre_cross_attention_layer_norm;
        let (hidden, normal) = add_and_norm(&inputs, &attended, norm, Dropout::off());
        let cross = &self.encoder_decoder_attention;
        // The hypotheses of a row read the same encoding: they are its query positions.
        let [rows, _, embed] = normal.size()[..] else { unreachable!("activations have 3 axes") };
        let batch = cache.cross.key.size()[0];
        let query = cross.queries(&normal.view([batch, rows / batch, embed]));
        let attended = cross.attend(&query, &cache.cross, cross_bias, Dropout::off());
        self.feed_forward(&hidden, &attended.view([rows, 1, embed]), Dropout::off())
    }

    /// Adds the last attention's result to the stream, then the feed-forward block's.
    fn feed_forward(&self, stream: &Tensor, attended: &Tensor, dropout: Dropout) -> Tensor {
        let (hidden, normal) = add_and_norm(stream, attended, &self.pre_mlp_layer_norm, dropout);
        dropout.add_along_length(&hidden, &self.mlp.forward(&normal, dropout))
    }
}

/// Keys and values of the positions decoded so far, and of the encoding.
#[derive(Debug)]
pub struct DecoderCache {
    layers: Vec<LayerCache>,
    position_bias: Tensor, // [1, num_heads, max_length, max_length]
    cross_bias: Tensor,    // [batch, 1, 1, inputs_length]
    length: i64,
}

#[derive(Debug)]
struct LayerCache {
    own: KeyValue,   // [batch * beams, num_heads, max_length, head_dim]
    cross: KeyValue, // [batch, num_heads, inputs_length, head_dim]
}

impl DecoderCache {
    /// Positions decoded so far.
    pub fn length(&self) -> i64 {
        self.length
    }

    /// Replaces each hypothesis by the one at its index, int64 `[batch * beams]`. Indices stay within
    /// a row's hypotheses, which share the encoding.
    pub fn reorder(&mut self, indices: &Tensor) {
        for layer in &mut self.layers {
            for cached in [&mut layer.own.key, &mut layer.own.value] {
                let mut filled = cached.narrow(2, 0, self.length);
                let reordered = filled.index_select(0, indices);
                filled.copy_(&reordered);
            }
        }
    }
}

impl LayerCache {
    /// Stores one position and returns all so far.
    fn extend(&mut self, index: i64, new: KeyValue) -> KeyValue {
        let store = |cached: &Tensor, new: &Tensor| {
            cached.narrow(2, index, 1).copy_(new);
            cached.narrow(2, 0, index + 1)
        };
        KeyValue { key: store(&self.own.key, &new.key), value: store(&self.own.value, &new.value) }
    }
}
