//! The encoder stack for predictions on a CPU: its weights are laid out once, and padding is skipped.

use tch::{Device, Kind, Tensor};

use super::packed_mlp::PackedMlp;
use super::predict::prediction_kernel;
use super::spec::{MAX_DISTANCE, T5Config};
use crate::nn::{
    PackedKernel, Params, RelativePosition, SequenceBias, bias_from_mask, kind,
    relative_position_distances, rms_norm, sequence_attention,
};

/// The encoder's weights in the compute dtype, laid out for products without gradients.
#[derive(Debug)]
pub struct PackedEncoder {
    layers: Vec<PackedLayer>,
    rel_embedding: Tensor,
    norm: Tensor,
    num_heads: i64,
}

#[derive(Debug)]
struct PackedLayer {
    pre_attention_layer_norm: Tensor,
    projections: PackedKernel, // [embed, 3 * joined]: query, key, value
    out: PackedKernel,
    mlp: PackedMlp,
}

impl PackedEncoder {
    /// Whether it is faster than the training encoder, which also supports 8-bit floats.
    pub fn suits(config: &T5Config, device: Device) -> bool {
        let has_fp8 = config.fp8.as_ref().is_some_and(|fp8| fp8.enable_fp8);
        !has_fp8 && PackedKernel::packs(kind(config.dtype), device, PackedKernel::MANY_ROWS)
    }

    /// Reads the parameters under `encoder/`.
    pub fn new(config: &T5Config, params: &Params) -> Self {
        let kind = kind(config.dtype);
        let layer = |index| {
            let prefix = format!("encoder/layers_{index}");
            PackedLayer::new(config, |name| {
                prediction_kernel(config, params, &format!("{prefix}/{name}"))
            })
        };
        Self {
            layers: (0..config.num_encoder_layers).map(layer).collect(),
            rel_embedding: params.cast("encoder/relpos_bias/rel_embedding", kind),
            norm: params.cast("encoder/encoder_norm/scale", kind),
            num_heads: config.num_heads as i64,
        }
    }

    /// Whether almost no work remains for libtorch: see [`PackedMlp::is_all_packed`].
    pub fn is_all_packed(&self) -> bool {
        self.layers.iter().all(|layer| layer.mlp.is_all_packed())
    }

    /// Maps embedded tokens `[batch, length, embed]` to their encoding, of the same shape. `real`
    /// marks the tokens that are not padding, bool `[batch, length]`. After a sequence's last token
    /// the encoding is zero.
    pub fn forward(&self, embedded: &Tensor, real: &Tensor) -> Tensor {
        let sequences = Sequences::new(real);
        let distances = relative_position_distances(
            &self.rel_embedding,
            embedded.size()[1],
            RelativePosition::Bidirectional,
            MAX_DISTANCE as i64,
        );
        let bias = SequenceBias {
            lengths: &sequences.lengths,
            distances: &distances.to_kind(Kind::Float),
            mask: &sequences.mask,
        };
        let mut hidden = sequences.gather(embedded);
        for layer in &self.layers {
            hidden = layer.attend(&hidden, &bias, self.num_heads);
            hidden = layer.mlp.forward(&hidden);
        }
        sequences.scatter(&rms_norm(&hidden, &self.norm), embedded)
    }
}

/// All tensors are `[rows, embed]`.
impl PackedLayer {
    /// Reads the layer's parameters; `read` returns the parameter of a name.
    fn new(config: &T5Config, read: impl Fn(&str) -> Tensor) -> Self {
        let kernels =
            ["query", "key", "value"].map(|name| read(&format!("attention/{name}/kernel")));
        Self {
            pre_attention_layer_norm: read("pre_attention_layer_norm/scale"),
            projections: PackedKernel::new(&Tensor::cat(&kernels, 1), PackedKernel::MANY_ROWS),
            out: PackedKernel::new(&read("attention/out/kernel"), PackedKernel::MANY_ROWS),
            mlp: PackedMlp::new(config, PackedKernel::MANY_ROWS, read),
        }
    }

    fn attend(&self, hidden: &Tensor, bias: &SequenceBias, num_heads: i64) -> Tensor {
        let projected = self.projections.apply_to_normal(hidden, &self.pre_attention_layer_norm);
        let projected = projected.view([hidden.size()[0], 3, num_heads, -1]);
        self.out.apply_and_add(&sequence_attention(&projected, bias), hidden)
    }
}

/// The rows of a batch up to each sequence's last token.
struct Sequences {
    lengths: Vec<i64>,
    mask: Tensor,         // float32 [rows]: what a padded key among them adds to scores
    rows: Option<Tensor>, // int64 [rows]: which of the batch's these are, unless they are all
}

impl Sequences {
    fn new(real: &Tensor) -> Self {
        let (batch, length) = real.size2().expect("a batch has two axes");
        let places = Tensor::arange(length, (Kind::Int64, real.device())) + 1;
        let last = (real.to_kind(Kind::Int64) * &places).amax([1], false);
        // A sequence without tokens is encoded completely: the decoder attends to all of it
        // equally.
        let last = last.where_self(&last.gt(0), &last.full_like(length));
        let lengths = Vec::try_from(&last).expect("lengths are int64");
        let whole = lengths.iter().sum::<i64>() == batch * length;
        let rows = (!whole).then(|| {
            let kept = places.le_tensor(&last.unsqueeze(1)); // [batch, length]
            kept.view(-1).nonzero().view(-1)
        });
        let mask = bias_from_mask(real, Kind::Float).view(-1);
        let mask =
            rows.as_ref().map_or_else(|| mask.shallow_clone(), |rows| mask.index_select(0, rows));
        Self { lengths, mask, rows }
    }

    /// `[batch, length, embed]` to `[rows, embed]`.
    fn gather(&self, whole: &Tensor) -> Tensor {
        let whole = whole.flatten(0, 1);
        self.rows.as_ref().map_or_else(|| whole.shallow_clone(), |rows| whole.index_select(0, rows))
    }

    /// Back to the shape of `whole`.
    fn scatter(&self, hidden: &Tensor, whole: &Tensor) -> Tensor {
        let Some(rows) = &self.rows else { return hidden.view_as(whole) };
        whole.zeros_like().flatten(0, 1).index_copy_(0, rows, hidden).view_as(whole)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::models::t5::T5;
    use crate::nn::{Dropout, Dtype};

    /// Returns the largest difference from the training encoder, at positions that the decoder
    /// reads, over the largest value.
    fn error(config: T5Config, tokens: &Tensor) -> f64 {
        let params = Params::init(&config.param_tree(), 5, Device::Cpu);
        let t5 = T5::new(config);
        tch::no_grad(|| {
            let packed = PackedEncoder::new(t5.config(), &params);
            let real = tokens.gt(0);
            let seen = real.logical_or(&real.any_dim(1, true).logical_not());
            let expected = t5.encode(&params, tokens, Dropout::off()).to_kind(Kind::Float);
            let found = packed.forward(&t5.embed(&params, tokens), &real).to_kind(Kind::Float);
            let difference = (found - &expected).abs() * seen.unsqueeze(-1);
            let largest = |tensor: Tensor| tensor.abs().max().double_value(&[]);
            largest(difference) / largest(expected)
        })
    }

    #[test]
    fn a_packed_encoder_gives_what_the_one_that_trains_gives() {
        let _held = crate::nn::GENERATOR.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let small = || T5Config {
            vocab_size: 20,
            emb_dim: 24,
            num_heads: 3,
            num_encoder_layers: 2,
            head_dim: 16,
            mlp_dim: 40,
            ..T5Config::t5_1_1_small()
        };
        // Whole sequences, padded ones, padding before the last token, and a sequence without any.
        let whole = Tensor::from_slice2(&[[3i64, 4, 5, 6, 7, 8, 9], [9, 8, 7, 6, 5, 4, 3]]);
        let padded =
            [[3i64, 4, 5, 6, 7, 8, 9], [9, 8, 0, 0, 5, 0, 0], [0; 7], [2, 0, 0, 0, 0, 0, 0]];
        let relu = vec![crate::nn::Activation::Relu];
        let configs = [
            small(),
            T5Config { scale_attn_logits: true, ..small() },
            T5Config { mlp_activations: relu, head_dim: 24, ..small() },
        ];
        for tokens in [whole, Tensor::from_slice2(&padded)] {
            for config in &configs {
                for (dtype, tolerance) in [(Dtype::Float32, 1e-5), (Dtype::Bfloat16, 3e-2)] {
                    let error = error(T5Config { dtype, ..config.clone() }, &tokens);
                    assert!(error < tolerance, "{error} in {dtype:?}, {config:?}");
                }
            }
        }
    }
}
