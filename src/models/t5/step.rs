//! The decoder one position at a time, with the keys and values of all positions before in a cache.
//!
//! A step reads every weight for a few rows, so most of its time is spent on reading weights and on
//! starting operations. Weights are therefore laid out once for such products, those with the same
//! input as one, and the cache is written and read in place.

use tch::{Kind, Tensor};

use super::encoder::attention_dims;
use super::packed_mlp::PackedMlp;
use super::predict::prediction_kernel;
use super::spec::{MAX_DISTANCE, T5Config};
use crate::nn::{
    AttentionDims, KeyValue, PackedKernel, Params, RelativePosition, bias_from_mask, causal_mask,
    kind, relative_position_bias, rms_norm, step_attention,
};

/// The decoder's weights in the compute dtype, laid out for products with one position of each
/// hypothesis.
#[derive(Debug)]
pub struct StepDecoder {
    layers: Vec<StepLayer>,
    rel_embedding: Tensor,
    norm: Tensor,
    kind: Kind,
    dims: AttentionDims,
}

#[derive(Debug)]
struct StepLayer {
    pre_self_attention_layer_norm: Tensor,
    self_projections: PackedKernel, // [embed, 3 * joined]: query, key, value
    self_out: PackedKernel,
    pre_cross_attention_layer_norm: Tensor,
    cross_query: PackedKernel,
    cross_key_value: PackedKernel, // [embed, 2 * joined], which only new caches read
    cross_out: PackedKernel,
    mlp: PackedMlp,
    dims: AttentionDims,
}

/// The start of decoding, and its limits.
#[derive(Debug)]
pub struct CacheInputs<'a> {
    /// `[batch, inputs_length, embed]`
    pub encoded: &'a Tensor,
    /// Mask of the inputs that are not padding, bool `[batch, inputs_length]`.
    pub real: &'a Tensor,
    /// Hypotheses per row of the batch.
    pub beams: i64,
    /// Greatest number of positions to decode.
    pub max_length: i64,
}

/// The position of a step. Both kinds give the same results.
#[derive(Debug)]
pub enum Position {
    /// The host counts, and keys and values are read up to that position.
    Counted(i64),
    /// A tensor counts, int64 `[1]`, and all keys and values are read, those of later positions masked:
    /// every step is the same work on the same memory, as a CUDA graph needs.
    OnDevice(Tensor),
}

/// Keys and values of the positions decoded so far, and of the encoding.
#[derive(Debug)]
pub struct DecoderCache {
    own: Tensor, // [num_layers, batch * beams, max_length, 2, num_heads, head_dim]: keys and values
    cross: Vec<KeyValue>, // each [batch, num_heads, inputs_length, head_dim]
    self_bias: Tensor, // [1, num_heads, max_length, max_length]: position, and the future masked
    cross_bias: Tensor, // [batch, 1, 1, inputs_length]
    position: Position,
}

impl StepDecoder {
    /// Reads the parameters under `decoder/`, except the logits' kernel, for steps of `rows` hypotheses.
    pub fn new(config: &T5Config, params: &Params, rows: i64) -> Self {
        let kind = kind(config.dtype);
        let layer = |index| {
            let prefix = format!("decoder/layers_{index}");
            StepLayer::new(config, rows, |name| {
                prediction_kernel(config, params, &format!("{prefix}/{name}"))
            })
        };
        Self {
            layers: (0..config.num_decoder_layers).map(layer).collect(),
            rel_embedding: params.cast("decoder/relpos_bias/rel_embedding", kind),
            norm: params.cast("decoder/decoder_norm/scale", kind),
            kind,
            dims: attention_dims(config),
        }
    }

    /// Creates a cache without decoded positions.
    pub fn new_cache(&self, inputs: &CacheInputs, position: Position) -> DecoderCache {
        let device = inputs.encoded.device();
        let rows = inputs.encoded.size()[0] * inputs.beams;
        let num_layers = self.layers.len() as i64;
        let size =
            [num_layers, rows, inputs.max_length, 2, self.dims.num_heads, self.dims.head_dim];
        let lengths = (inputs.max_length, inputs.max_length);
        let direction = RelativePosition::Causal;
        let bias =
            relative_position_bias(&self.rel_embedding, lengths, direction, MAX_DISTANCE as i64);
        let causal = bias_from_mask(&causal_mask(inputs.max_length, device), self.kind);
        let cross_mask = inputs.real.unsqueeze(1).unsqueeze(1); // [batch, 1, 1, inputs_length]
        DecoderCache {
            own: Tensor::zeros(size, (self.kind, device)),
            cross: self.layers.iter().map(|layer| layer.cross_keys(inputs.encoded)).collect(),
            self_bias: bias + causal,
            cross_bias: bias_from_mask(&cross_mask, self.kind),
            position,
        }
    }

    /// Computes the next position of every hypothesis: `[batch * beams, embed]` to the same shape.
    pub fn step(&self, embedded: Tensor, cache: &mut DecoderCache) -> Tensor {
        let self_bias = cache.position.bias(&cache.self_bias);
        let mut hidden = embedded;
        for (index, layer) in self.layers.iter().enumerate() {
            hidden = layer.self_attend(&hidden, cache, index, &self_bias);
            hidden = layer.cross_attend(&hidden, &cache.cross[index], &cache.cross_bias);
            hidden = layer.mlp.forward(&hidden);
        }
        cache.position.advance();
        rms_norm(&hidden, &self.norm)
    }
}

/// All tensors are `[batch * beams, embed]`.
impl StepLayer {
    /// Reads the layer's parameters; `read` returns the parameter of a name.
    fn new(config: &T5Config, rows: i64, read: impl Fn(&str) -> Tensor) -> Self {
        let joined = |block: &str, names: &[&str]| {
            let kernels: Vec<_> =
                names.iter().map(|name| read(&format!("{block}/{name}/kernel"))).collect();
            Tensor::cat(&kernels, 1)
        };
        let pack = |kernel: Tensor| PackedKernel::new(&kernel, rows);
        let (own, cross) = ("self_attention", "encoder_decoder_attention");
        let key_value = joined(cross, &["key", "value"]);
        Self {
            pre_self_attention_layer_norm: read("pre_self_attention_layer_norm/scale"),
            self_projections: pack(joined(own, &["query", "key", "value"])),
            self_out: pack(joined(own, &["out"])),
            pre_cross_attention_layer_norm: read("pre_cross_attention_layer_norm/scale"),
            cross_query: pack(joined(cross, &["query"])),
            cross_key_value: PackedKernel::new(&key_value, PackedKernel::MANY_ROWS),
            cross_out: pack(joined(cross, &["out"])),
            mlp: PackedMlp::new(config, rows, &read),
            dims: attention_dims(config),
        }
    }

    /// Keys and values of `encoded` `[batch, inputs_length, embed]`.
    fn cross_keys(&self, encoded: &Tensor) -> KeyValue {
        let both = self.cross_key_value.apply_by_head(encoded, self.dims.head_dim);
        // Each step reads all of them, one head after the other, so they are stored in that order.
        let part = |index| both.narrow(1, index * self.dims.num_heads, self.dims.num_heads);
        KeyValue { key: part(0), value: part(1) }
    }

    fn self_attend(
        &self,
        hidden: &Tensor,
        cache: &DecoderCache,
        index: usize,
        bias: &Tensor,
    ) -> Tensor {
        let rows = hidden.size()[0];
        let norm = &self.pre_self_attention_layer_norm;
        let projected = self.self_projections.apply_to_normal(hidden, norm);
        let projected = projected.view([rows, 3, self.dims.num_heads, self.dims.head_dim]);
        let query = projected.select(1, 0).unsqueeze(2); // [rows, num_heads, 1, head_dim]
        let own = cache.own.get(index as i64);
        let key_value = cache.position.extend(&own, &projected.narrow(1, 1, 2));
        let heads = step_attention(&query, &key_value, bias);
        self.self_out.apply_and_add(&heads.view([rows, -1]), hidden)
    }

    fn cross_attend(&self, hidden: &Tensor, cross: &KeyValue, bias: &Tensor) -> Tensor {
        let rows = hidden.size()[0];
        let batch = cross.key.size()[0];
        // The hypotheses of a row read the same encoding: they are its query positions.
        let norm = &self.pre_cross_attention_layer_norm;
        let query = self.cross_query.apply_to_normal(hidden, norm);
        let query = query.view([batch, rows / batch, self.dims.num_heads, self.dims.head_dim]);
        let heads = step_attention(&query.transpose(1, 2), cross, bias);
        self.cross_out.apply_and_add(&heads.view([rows, -1]), hidden)
    }
}

impl Position {
    /// Returns the query's row of the bias `[1, num_heads, max_length, max_length]`, for the keys
    /// that are read.
    fn bias(&self, bias: &Tensor) -> Tensor {
        match self {
            Position::Counted(index) => bias.narrow(2, *index, 1).narrow(3, 0, index + 1),
            Position::OnDevice(index) => bias.index_select(2, index),
        }
    }

    /// Stores the position's keys and values `[rows, 2, num_heads, head_dim]` in those of a layer,
    /// `[rows, max_length, 2, num_heads, head_dim]`, and returns all to read, each
    /// `[rows, num_heads, length, head_dim]`.
    fn extend(&self, own: &Tensor, new: &Tensor) -> KeyValue {
        let filled = match self {
            Position::Counted(index) => {
                own.select(1, *index).copy_(new);
                own.narrow(1, 0, index + 1)
            }
            Position::OnDevice(index) => {
                own.shallow_clone().index_copy_(1, index, &new.unsqueeze(1))
            }
        };
        let part = |index| filled.select(2, index).transpose(1, 2);
        KeyValue { key: part(0), value: part(1) }
    }

    fn advance(&mut self) {
        match self {
            Position::Counted(index) => *index += 1,
            Position::OnDevice(index) => {
                let _ = index.g_add_scalar_(1);
            }
        }
    }
}

impl DecoderCache {
    /// Returns to the first position. Stored values remain, but are not read.
    pub fn restart(&mut self) {
        match &mut self.position {
            Position::Counted(index) => *index = 0,
            Position::OnDevice(index) => {
                let _ = index.zero_();
            }
        }
    }

    /// Replaces each hypothesis by the one at its index, int64 `[batch * beams]`. Indices stay within
    /// a row's hypotheses, which share the encoding.
    pub fn reorder(&mut self, indices: &Tensor) {
        match self.position {
            Position::Counted(length) => reorder_moved(&self.own.narrow(2, 0, length), indices),
            Position::OnDevice(_) => {
                let reordered = self.own.index_select(1, indices);
                self.own.copy_(&reordered);
            }
        }
    }
}

/// Copies only hypotheses that change places, which the host must find.
fn reorder_moved(filled: &Tensor, indices: &Tensor) {
    let places = indices.ones_like().cumsum(0, Kind::Int64) - 1;
    let moved = indices.ne_tensor(&places).nonzero().view(-1);
    if moved.numel() > 0 {
        let origins = indices.index_select(0, &moved);
        let _ = filled.shallow_clone().index_copy_(1, &moved, &filled.index_select(1, &origins));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nn::Dtype;
    use tch::Device;

    /// Returns hidden states of four steps of two inputs with two hypotheses each, which change
    /// places in between.
    fn steps(dtype: Dtype, position: Position) -> Tensor {
        let _held = crate::nn::GENERATOR.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let config = T5Config {
            vocab_size: 20,
            dtype,
            emb_dim: 16,
            num_heads: 2,
            num_encoder_layers: 1,
            num_decoder_layers: 2,
            head_dim: 16,
            mlp_dim: 24,
            ..T5Config::t5_1_1_small()
        };
        let params = Params::init(&config.param_tree(), 3, Device::Cpu);
        let draw =
            |size: [i64; 3]| Tensor::randn(size, (Kind::Float, Device::Cpu)).to_kind(kind(dtype));
        let (encoded, embedded) = (draw([2, 5, 16]), draw([4, 4, 16]));
        let real = Tensor::ones([2, 5], (Kind::Bool, Device::Cpu));
        let inputs = CacheInputs { encoded: &encoded, real: &real, beams: 2, max_length: 6 };
        tch::no_grad(|| {
            let decoder = StepDecoder::new(&config, &params, 4);
            let mut cache = decoder.new_cache(&inputs, position);
            let hidden = (0..4).map(|index| {
                let hidden = decoder.step(embedded.get(index), &mut cache);
                cache.reorder(&Tensor::from_slice(
                    &[[1i64, 1, 2, 3], [0, 1, 3, 2]][index as usize % 2],
                ));
                hidden
            });
            Tensor::stack(&hidden.collect::<Vec<_>>(), 0).to_kind(Kind::Float)
        })
    }

    #[test]
    fn a_position_on_the_device_gives_what_a_counted_one_gives() {
        for (dtype, tolerance) in [(Dtype::Float32, 1e-5), (Dtype::Bfloat16, 3e-2)] {
            let index = Tensor::zeros([1], (Kind::Int64, Device::Cpu));
            let whole = steps(dtype, Position::OnDevice(index));
            let counted = steps(dtype, Position::Counted(0));
            let error = (&whole - counted).abs().max().double_value(&[]);
            let largest = whole.abs().max().double_value(&[]);
            assert!(error < tolerance * largest, "{error} of {largest}");
        }
    }
}
