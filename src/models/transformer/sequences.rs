//! Whole sequences through a packed stack on a CPU, as an encoder in predictions: padding is skipped.

use tch::{Kind, Tensor};

use super::packed::{PackedKernels, PackedStack};
use super::reach::{OwnBias, Visible};
use crate::models::parts::{AttentionBlock, RowTensors};
use crate::nn::{Dropout, Heads, Joined};

impl PackedStack {
    /// Maps embedded tokens `[batch, length, embed]` to their encoding, of the same shape. `real`
    /// marks the tokens that are not padding, bool `[batch, length]`. After a sequence's last token
    /// the encoding is zero.
    ///
    /// Products multiply the rows up to each sequence's last token; attention has all rows of the longest sequence.
    pub fn encode(&self, embedded: &Tensor, real: &Tensor) -> Tensor {
        let sequences = Sequences::new(real);
        let (length, position) = (sequences.size[1], self.spec.position);
        let of_pairs = |embedding| position.map(|position| position.of_pairs(embedding, length));
        let shared: Vec<Tensor> = self.rel_embedding.iter().filter_map(of_pairs).collect();
        let shared = OwnBias::new(&self.spec, &sequences.visible(), length, &shared);
        let mut hidden = sequences.gather(&embedded.narrow(1, 0, length));
        for (index, layer) in self.layers.iter().enumerate() {
            let own = layer.rel_embedding.as_ref().map(|embedding| shared.of_layer(embedding));
            let bias = own.as_ref().unwrap_or(&shared);
            let mut attend = |_: &AttentionBlock<PackedKernels>, projected: Joined| {
                let projected = projected.into_wholes().remove(0); // [rows, 3 * joined]
                let joined = Joined::new(vec![sequences.scatter(&projected)], 3);
                let heads = Heads { joined, count: self.dims.num_heads };
                sequences.gather(&bias.attend(index, &heads, &self.dims, Dropout::off()))
            };
            hidden =
                layer.forward(hidden, RowTensors::default(), Dropout::off(), &mut attend).hidden;
        }
        let encoded = sequences.scatter(&self.norm.of(&hidden));
        encoded.constant_pad_nd([0, 0, 0, embedded.size()[1] - length])
    }
}

/// The rows of a batch up to each sequence's last token.
struct Sequences {
    size: [i64; 2],       // of the batch up to the last token of its longest sequence
    real: Tensor,         // bool of this size: the positions that are not padding
    rows: Option<Tensor>, // int64 [rows]: the kept ones of the batch in one row, unless all are
}

impl Sequences {
    fn new(real: &Tensor) -> Self {
        let (batch, length) = real.size2().expect("a batch has two axes");
        let places = Tensor::arange(length, (Kind::Int64, real.device())) + 1;
        let last = (real.to_kind(Kind::Int64) * &places).amax([1], false);
        // A sequence without tokens is encoded completely: the decoder attends to all of it
        // equally.
        let last = last.where_self(&last.gt(0), &last.full_like(length));
        let longest = last.max().int64_value(&[]);
        let kept = places.narrow(0, 0, longest).le_tensor(&last.unsqueeze(1));
        let rows = kept.view(-1).nonzero().view(-1);
        let rows = (rows.size()[0] < batch * longest).then_some(rows);
        Self { size: [batch, longest], real: real.narrow(1, 0, longest), rows }
    }

    /// The keys that queries attend to.
    fn visible(&self) -> Visible {
        Visible::masked(self.real.unsqueeze(1).unsqueeze(1))
    }

    /// `[batch, length, columns]` to `[rows, columns]`.
    fn gather(&self, whole: &Tensor) -> Tensor {
        let whole = whole.flatten(0, 1);
        self.rows.as_ref().map_or_else(|| whole.shallow_clone(), |rows| whole.index_select(0, rows))
    }

    /// Back to `[batch, length, columns]`, 0 in the other rows.
    fn scatter(&self, some: &Tensor) -> Tensor {
        let [batch, length] = self.size;
        let whole = match &self.rows {
            None => some.shallow_clone(),
            Some(rows) => {
                let whole = [batch * length, some.size()[1]];
                some.new_zeros(whole, (some.kind(), some.device())).index_copy_(0, rows, some)
            }
        };
        whole.view([batch, length, -1])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::models::t5::{T5, T5Config};
    use crate::models::{Batch, feature};
    use crate::nn::{Dtype, PackedKernel, Params};
    use tch::Device;

    /// Returns the largest difference from the training encoder, at positions that the decoder
    /// reads, over the largest value.
    fn error(config: T5Config, tokens: &Tensor) -> f64 {
        let params = Params::init(&config.param_tree(), 5, Device::Cpu);
        let t5 = T5::new(config.transformer());
        tch::no_grad(|| {
            let spec = t5.spec();
            let encoder = spec.encoder.as_ref().expect("a T5 has an encoder");
            let packed = PackedStack::new(encoder, &params, PackedKernel::MANY_ROWS);
            let real = tokens.gt(0);
            let seen = real.logical_or(&real.any_dim(1, true).logical_not());
            let batch = Batch::new([(feature::ENCODER_INPUT_TOKENS, tokens.shallow_clone())]);
            let expected = t5.encode(&params, &batch, Dropout::off()).to_kind(Kind::Float);
            let found =
                packed.encode(&spec.tokens.embed(&params, tokens), &real).to_kind(Kind::Float);
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
            T5Config { relpos_bias_per_layer: true, ..small() },
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
