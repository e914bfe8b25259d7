//! A packed decoder one position at a time, with the keys and values of all positions before in a
//! cache.
//!
//! A step reads every weight for a few rows, so most of its time is spent on reading weights and on
//! starting operations. The cache is written and read in place.

use tch::{Device, Kind, Tensor};

use super::packed::{PackedKernels, PackedStack};
use crate::models::parts::{AttentionBlock, RowTensors};
use crate::nn::{
    Dropout, Joined, KeyValue, Past, bias_from_mask, causal_mask, has_step_kernels, past_attention,
    reorder_hypotheses, step_attention,
};

/// The extents of a cache, and its device.
#[derive(Clone, Copy, Debug)]
pub struct CacheSize {
    /// Hypotheses of the whole batch.
    pub hypotheses: i64,
    /// Greatest number of positions to decode.
    pub max_length: i64,
    /// The device of the weights.
    pub device: Device,
}

/// The position of a step. Both kinds give the same results.
#[derive(Debug)]
pub enum Position {
    /// The host counts, and an attention is one operation, which reads keys and values up to that position: for heads with
    /// such a kernel.
    Counted(i64),
    /// A tensor counts, int64 `[1]`, and all keys and values are read, those of later positions masked:
    /// every step is the same work on the same memory, as a CUDA graph needs.
    OnDevice(Tensor),
}

impl Position {
    /// The first position of a decoder with heads of that width.
    pub fn first(device: Device, head_dim: i64) -> Self {
        match has_step_kernels(device, head_dim) {
            true => Position::Counted(0),
            false => Position::OnDevice(Tensor::zeros([1], (Kind::Int64, device))),
        }
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

/// Keys and values of the positions decoded so far, and of an encoding.
#[derive(Debug)]
pub struct DecoderCache {
    own: Tensor, // [num_layers, hypotheses, max_length, 2, num_heads, head_dim]: keys and values
    layers: Vec<Tensor>, // views of `own`, one of each layer
    cross: Vec<KeyValue>, // of each layer, [batch, num_heads, inputs_length, head_dim]
    self_biases: Vec<Tensor>, // of all layers or of each, [1, num_heads, max_length, max_length]: position, the future masked
    cross_bias: Tensor,       // [batch, 1, 1, inputs_length]
    position: Position,
    start: i64,
    /// Positions of each hypothesis that are filled already and stay as they are: int64 `[hypotheses]`.
    prefilled: Option<Tensor>,
}

impl PackedStack {
    /// Creates a cache without decoded positions.
    pub fn new_cache(&self, size: CacheSize, position: Position) -> DecoderCache {
        let CacheSize { hypotheses, max_length, device } = size;
        let (num_layers, dims) = (self.layers.len() as i64, self.dims);
        let own = [num_layers, hypotheses, max_length, 2, dims.num_heads, dims.head_dim];
        let causal = bias_from_mask(&causal_mask(max_length, device), self.kind);
        let relative = self.spec.position.expect("a decoder has biases of relative position");
        let bias = |embedding: &Tensor| relative.of_pairs(embedding, max_length) + &causal;
        let own = Tensor::zeros(own, (self.kind, device));
        DecoderCache {
            layers: own.unbind(0),
            own,
            cross: Vec::new(),
            self_biases: self.rel_embeddings().map(bias).collect(),
            cross_bias: Tensor::new(),
            position,
            start: 0,
            prefilled: None,
        }
    }

    /// Adds keys and values of `encoded` `[batch, inputs_length, embed]` to a cache; `real` marks
    /// inputs that are not padding, bool `[batch, inputs_length]`.
    pub fn read_encoding(&self, cache: &mut DecoderCache, encoded: &Tensor, real: &Tensor) {
        let (num_heads, head_dim) = (self.dims.num_heads, self.dims.head_dim);
        let (batch, length, _) = encoded.size3().expect("an encoding has three axes");
        let contexts = self.layers.iter().flat_map(|layer| layer.contexts());
        let key_value = |context: &PackedKernels| {
            let both = context.kernel.apply(encoded);
            let both = both.view([batch, length, 2 * num_heads, head_dim]).transpose(1, 2);
            // Each step reads all of them, one head after the other, so they are stored in that order.
            let both = both.contiguous();
            let part = |index| both.narrow(1, index * num_heads, num_heads);
            KeyValue { key: part(0), value: part(1) }
        };
        cache.cross = contexts.map(key_value).collect();
        let mask = real.unsqueeze(1).unsqueeze(1); // [batch, 1, 1, inputs_length]
        cache.cross_bias = bias_from_mask(&mask, self.kind);
    }

    /// Computes the next position of every hypothesis: `[hypotheses, embed]` to the same shape.
    pub fn step(&self, embedded: Tensor, cache: &mut DecoderCache) -> Tensor {
        let self_biases = cache.step_biases();
        let mut hidden = embedded;
        // One bias is that of all layers.
        for ((index, layer), self_bias) in
            self.layers.iter().enumerate().zip(self_biases.iter().cycle())
        {
            let mut attend = |block: &AttentionBlock<PackedKernels>, projected: Joined| {
                let projected = &projected.wholes()[0];
                match block.context {
                    None => cache.attend_to_past(projected, index, self_bias),
                    // The hypotheses of a row read the same encoding: they are its query positions.
                    Some(_) => step_attention(projected, &cache.cross[index], &cache.cross_bias),
                }
            };
            hidden =
                layer.forward(hidden, RowTensors::default(), Dropout::off(), &mut attend).hidden;
        }
        cache.position.advance();
        self.norm.of(&hidden)
    }
}

impl DecoderCache {
    /// Returns to the first position to decode. Stored values remain, but are not read.
    pub fn restart(&mut self) {
        match &mut self.position {
            Position::Counted(index) => *index = self.start,
            Position::OnDevice(index) => {
                let _ = index.fill_(self.start);
            }
        }
    }

    /// Stores keys and values `[batch, length, 2, num_heads, head_dim]` of the first positions in
    /// those of a layer, for all hypotheses of each row.
    pub fn prefill(&mut self, layer: usize, key_value: &Tensor) {
        let (batch, length) = (key_value.size()[0], key_value.size()[1]);
        let beams = self.own.size()[1] / batch;
        let filled = key_value.repeat_interleave_self_int(beams, 0, None);
        self.layers[layer].narrow(1, 0, length).copy_(&filled);
    }

    /// Begins decoding at position `start`. So many positions of each hypothesis, int64
    /// `[hypotheses]`, are prefilled.
    pub fn begin_at(&mut self, start: i64, prefilled: Tensor) {
        (self.start, self.prefilled) = (start, Some(prefilled));
        self.restart();
    }

    /// The biases from which a step reads: those of all positions, or if the device counts, of its own.
    fn step_biases(&self) -> Vec<Tensor> {
        let of_step = |bias: &Tensor| match &self.position {
            Position::Counted(_) => bias.shallow_clone(),
            Position::OnDevice(index) => bias.index_select(2, index),
        };
        self.self_biases.iter().map(of_step).collect()
    }

    /// Stores the position's keys and values in those of a layer, and attends to them and to all before:
    /// `[hypotheses, 3 * joined]` to `[hypotheses, joined]`.
    fn attend_to_past(&self, projected: &Tensor, layer: usize, bias: &Tensor) -> Tensor {
        let (cache, filled) = (&self.layers[layer], self.prefilled.as_ref());
        match &self.position {
            &Position::Counted(position) => {
                past_attention(projected, &Past { cache, bias, position, filled })
            }
            Position::OnDevice(index) => {
                let (rows, _, _, heads, width) = cache.size5().expect("a cache has five axes");
                let query = projected.narrow(1, 0, heads * width);
                let new = projected.narrow(1, heads * width, 2 * heads * width);
                let key_value = self.extend(cache, index, &new.view([rows, 2, heads, width]));
                step_attention(&query, &key_value, bias)
            }
        }
    }

    /// Stores keys and values `[hypotheses, 2, num_heads, head_dim]` at a position in those of a layer, and returns
    /// those of all positions, each `[hypotheses, num_heads, max_length, head_dim]`.
    fn extend(&self, cache: &Tensor, position: &Tensor, new: &Tensor) -> KeyValue {
        let kept = self.prefilled.as_ref().map(|count| {
            let old = cache.index_select(1, position).squeeze_dim(1);
            old.where_self(&count.gt_tensor(position).view([-1, 1, 1, 1]), new)
        });
        let stored = kept.as_ref().unwrap_or(new).unsqueeze(1);
        let all = cache.shallow_clone().index_copy_(1, position, &stored);
        let part = |index| all.select(2, index).transpose(1, 2);
        KeyValue { key: part(0), value: part(1) }
    }

    /// Replaces each hypothesis by the one at its index, int64 `[hypotheses]`. Indices stay within
    /// a row's hypotheses, which share the encoding.
    pub fn reorder(&mut self, indices: &Tensor) {
        match self.position {
            Position::Counted(length) => reorder_hypotheses(&self.own, indices, length),
            Position::OnDevice(_) => {
                let reordered = self.own.index_select(1, indices);
                self.own.copy_(&reordered);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::models::t5::T5Config;
    use crate::nn::{Dtype, Params, kind};

    /// Returns hidden states of four steps of two inputs with two hypotheses each, which change
    /// places in between. Steps start after `filled` positions; the second input has one more.
    fn steps(dtype: Dtype, relpos_bias_per_layer: bool, filled: i64, position: Position) -> Tensor {
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
            relpos_bias_per_layer,
            ..T5Config::t5_1_1_small()
        };
        let params = Params::init(&config.param_tree(), 3, Device::Cpu);
        let draw =
            |size: &[i64]| Tensor::randn(size, (Kind::Float, Device::Cpu)).to_kind(kind(dtype));
        let (encoded, embedded) = (draw(&[2, 5, 16]), draw(&[4, 4, 16]));
        let real = Tensor::ones([2, 5], (Kind::Bool, Device::Cpu));
        let size = CacheSize { hypotheses: 4, max_length: 6, device: Device::Cpu };
        tch::no_grad(|| {
            let decoder = PackedStack::new(&config.transformer().last, &params, 4);
            let mut cache = decoder.new_cache(size, position);
            decoder.read_encoding(&mut cache, &encoded, &real);
            if filled > 0 {
                (0..2).for_each(|layer| cache.prefill(layer, &draw(&[2, filled + 1, 2, 2, 16])));
                let counts = [filled, filled, filled + 1, filled + 1];
                cache.begin_at(filled, Tensor::from_slice(&counts));
            }
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
        let (float32, bfloat16) = ((Dtype::Float32, 1e-5), (Dtype::Bfloat16, 3e-2));
        for ((dtype, tolerance), per_layer, filled) in
            [(float32, true, 0), (float32, false, 0), (float32, false, 2), (bfloat16, false, 1)]
        {
            let index = Tensor::zeros([1], (Kind::Int64, Device::Cpu));
            let whole = steps(dtype, per_layer, filled, Position::OnDevice(index));
            let counted = steps(dtype, per_layer, filled, Position::Counted(0));
            let error = (&whole - counted).abs().max().double_value(&[]);
            let largest = whole.abs().max().double_value(&[]);
            assert!(error < tolerance * largest, "{error} of {largest}");
        }
    }
}
