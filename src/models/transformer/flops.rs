//! The floating-point operations of a training step, by arithmetic alone.
//!
//! A multiplication and an addition count as two. The count includes products of matrices:
//! projections, the scores and averages of attention over all pairs of positions, and logits. The
//! backward pass has twice as many as the forward pass, half of them for gradients of kernels, which kernels without an
//! optimizer do not have. Every layer counts gradients of its inputs, also before the first trained
//! parameter. Experts compute all their places, those of training. Lookups are free, and recomputation under a
//! `remat_policy` does not count: these are operations of the model, not of the machine, as
//! Chowdhery et al. 2022 (arXiv:2204.02311) count them for the utilization of a device.

use super::spec::{StackSpec, TransformerSpec};
use crate::models::contract::memory::StepShape;
use crate::models::parts::Tokens;
use crate::nn::ParamSpec;

impl TransformerSpec {
    /// Returns the operations of a training step over rows of that shape, padding included, with gradients of trained
    /// parameters.
    pub fn train_step_flops(&self, shape: &StepShape, is_trained: &dyn Fn(&str) -> bool) -> f64 {
        let stacks = self
            .stacks_of(shape)
            .map(|(stack, tokens)| stack.sum_of_parts(|part| part.flops(tokens)));
        let head = self.tokens.flops(self.num_predicted(shape));
        let classes = self.class_head.map_or(0.0, |head| head.flops(shape.rows));
        3.0 * (stacks.sum::<f64>() + head + classes) - self.untrained(shape, is_trained)
            + self.of_additions(shape)
    }

    /// Operations of the gradients that kernels would have if they were trained. Experts count as trained.
    fn untrained(&self, shape: &StepShape, is_trained: &dyn Fn(&str) -> bool) -> f64 {
        let is_untrained = |param: &ParamSpec| {
            param.shape.len() == 2 && param.name.ends_with("/kernel") && !is_trained(&param.name)
        };
        let of_layers = self.stacks_of(shape).map(|(stack, tokens)| {
            let kernels = stack.layer_params();
            let kernels = kernels.iter().filter(|param| is_untrained(param));
            kernels.map(|kernel| product(kernel, tokens)).sum::<f64>()
        });
        let is_frozen = !is_trained(&self.tokens.head_param());
        let head = if is_frozen { self.tokens.flops(self.num_predicted(shape)) } else { 0.0 };
        of_layers.sum::<f64>() + head
    }

    /// Operations of additions of low rank: products with both factors, which are trained.
    fn of_additions(&self, shape: &StepShape) -> f64 {
        let of_stack = |(stack, tokens): (&StackSpec, Tokens)| {
            let factors = stack.lora.iter().flat_map(|lora| lora.params(&stack.layer_params()));
            factors.map(|factor| 3.0 * product(&factor, tokens)).sum::<f64>()
        };
        self.stacks_of(shape).map(of_stack).sum()
    }
}

/// Operations of the product of a stack's rows and a matrix; keys and values of an encoding have its rows.
fn product(matrix: &ParamSpec, tokens: Tokens) -> f64 {
    let reads_encoding = ["/encoder_decoder_attention/key/", "/encoder_decoder_attention/value/"];
    let rows = match reads_encoding.iter().any(|part| matrix.name.contains(part)) {
        true => tokens.encoded(),
        false => tokens.count(),
    };
    2.0 * rows * matrix.num_elements() as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::models::parts::{LoRA, Reach};
    use crate::models::t5::T5Config;
    use crate::nn::{Activation, Dtype, RematPolicy};

    fn config(dims: [usize; 4]) -> T5Config {
        let [emb_dim, mlp_dim, num_heads, num_layers] = dims;
        T5Config {
            dtype: Dtype::Bfloat16,
            emb_dim,
            num_heads,
            num_encoder_layers: num_layers,
            num_decoder_layers: num_layers,
            mlp_dim,
            remat_policy: RematPolicy::Full,
            ..T5Config::t5_1_1_small()
        }
    }

    #[test]
    fn one_layer_with_all_extents_apart_is_counted_by_hand() {
        let config = T5Config {
            vocab_size: 100,
            num_encoder_layers: 2,
            head_dim: 5,
            mlp_activations: vec![Activation::Relu],
            ..config([7, 11, 3, 1])
        };
        let shape = StepShape::whole(4, [13, 17]);
        // A token in a stack: four projections of 7 x 15 and two of 7 x 11. A pair: two products of 15.
        let token = 2 * (4 * 7 * 15 + 2 * 7 * 11);
        let encoder_layer = 13 * token + 13 * 13 * 60;
        let cross = 2 * (2 * 17 + 2 * 13) * 7 * 15 + 17 * 13 * 60;
        let decoder_layer = 17 * token + 17 * 17 * 60 + cross;
        let forward = 2 * encoder_layer + decoder_layer + 2 * 17 * 7 * 100;
        assert_eq!(
            config.transformer().train_step_flops(&shape, &|_| true),
            f64::from(3 * 4 * forward)
        );
    }

    /// Neighbours are as many at any length; tokens beside the row grow with it.
    #[test]
    fn keys_of_neighbours_and_blocks_are_counted() {
        let flops = |reach, inputs_length| {
            let mut spec = config([7, 11, 3, 1]).transformer();
            spec.encoder.as_mut().expect("a T5 has an encoder").reach = reach;
            let shape = StepShape::whole(1, [inputs_length, 1]);
            spec.train_step_flops(&shape, &|_| true)
        };
        let all = |length: usize| flops(Reach::All, length);
        let local = |length: usize| flops(Reach::Local { radius: 2 }, length);
        let pairs = f64::from(3 * 4 * 3 * 64); // of one query and one key
        assert_eq!(all(100) - local(100), 100.0 * (100.0 - 5.0) * pairs);
        assert_eq!(local(3), all(3));
        let global = flops(Reach::TransientGlobal { radius: 2, tokens_per_block: 10 }, 100);
        let projected = f64::from(3 * 2 * 2 * 7 * 3 * 64); // key and value of a token beside the row
        assert_eq!(global - local(100), 10.0 * projected + 100.0 * 10.0 * pairs);
    }

    /// Frozen kernels have gradients of their inputs alone, and factors of additions all three products.
    #[test]
    fn kernels_that_are_not_trained_have_no_gradients_and_additions_count() {
        let projections = vec![".*/(query|key)".to_string()];
        let lora = LoRA { rank: 2, alpha: 1.0, dropout_rate: 0.0, projections };
        let plain = config([7, 11, 3, 1]).transformer();
        let shape = StepShape::whole(1, [13, 17]);
        let all = plain.train_step_flops(&shape, &|_| true);
        let joined = 3 * 64;
        // Rows of both stacks, and kernels of 7 x 192 and 7 x 11.
        let token = 4 * 7 * joined + 3 * 7 * 11;
        let kernels = 2 * (13 * token + 17 * token + (2 * 17 + 2 * 13) * 7 * joined);
        let head = 2 * 17 * 7 * plain.tokens.vocab_size;
        let frozen = plain.train_step_flops(&shape, &|_| false);
        assert_eq!(all - frozen, (kernels + head) as f64);
        let adapted = plain.clone().with_lora(Some(&lora));
        let additions = 3 * 2 * 2 * (7 + joined) * (2 * 13 + 2 * 17 + 17 + 13);
        assert_eq!(adapted.train_step_flops(&shape, &|_| true) - all, additions as f64);
    }

    /// GFLOP of a row of 512 inputs and 114 targets, computed independently of this code.
    #[test]
    fn published_sizes_need_known_numbers_of_operations() {
        let sizes = [
            ([512, 1024, 6, 8], 106.3),
            ([768, 2048, 12, 12], 425.9),
            ([1024, 2816, 16, 24], 1467.8),
            ([2048, 5120, 32, 24], 5346.0),
        ];
        for (dims, expected) in sizes {
            let shape = StepShape::whole(1, [512, 114]);
            let found = config(dims).transformer().train_step_flops(&shape, &|_| true) / 1e9;
            assert!((found - expected).abs() < 0.06, "{found} for {dims:?}");
        }
    }
}
