//! The floating-point operations of a training step, by arithmetic alone.
//!
//! A multiplication and an addition count as two. The count includes products of matrices:
//! projections, the scores and averages of attention over all pairs of positions, and logits. The
//! backward pass has twice as many as the forward pass. Experts compute all their places, those of training. Lookups are free, and recomputation under a
//! `remat_policy` does not count: these are operations of the model, not of the machine, as
//! Chowdhery et al. 2022 (arXiv:2204.02311) count them for the utilization of a device.

use super::spec::TransformerSpec;
use crate::models::contract::memory::StepShape;

impl TransformerSpec {
    /// Returns the operations of a training step over rows of that shape, padding included.
    pub fn train_step_flops(&self, shape: &StepShape) -> f64 {
        let stacks = self
            .stacks_of(shape)
            .map(|(stack, tokens)| stack.sum_of_parts(|part| part.flops(tokens)));
        let head = self.tokens.flops(self.num_predicted(shape));
        let classes = self.class_head.map_or(0.0, |head| head.flops(shape.rows));
        3.0 * (stacks.sum::<f64>() + head + classes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::models::parts::Reach;
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
        assert_eq!(config.transformer().train_step_flops(&shape), f64::from(3 * 4 * forward));
    }

    /// Neighbours are as many at any length; tokens beside the row grow with it.
    #[test]
    fn keys_of_neighbours_and_blocks_are_counted() {
        let flops = |reach, inputs_length| {
            let mut spec = config([7, 11, 3, 1]).transformer();
            spec.encoder.as_mut().expect("a T5 has an encoder").reach = reach;
            let shape = StepShape::whole(1, [inputs_length, 1]);
            spec.train_step_flops(&shape)
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
            let found = config(dims).transformer().train_step_flops(&shape) / 1e9;
            assert!((found - expected).abs() < 0.06, "{found} for {dims:?}");
        }
    }
}
