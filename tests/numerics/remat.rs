//! Layers that are recomputed in the backward pass give the same gradients as others, bit for
//! bit, with dropout and in both dtypes.

use gimlet::metrics::sum;
use gimlet::models::Network;
use gimlet::models::heads::LossSpec;
use gimlet::models::t5::{T5, T5Config};
use gimlet::nn::{Dropout, Dtype, Params, RematPolicy};
use tch::Tensor;

use crate::fixture;

struct Found {
    loss: f64,
    gradients: Vec<Tensor>,
    /// The next random number, which shows that the generator has the same state.
    next: Tensor,
}

fn run(config: T5Config, params: &Params, dropout: Dropout) -> Found {
    let inputs = [vec![5, 9, 3, 7, 12, 1], vec![4, 4, 8, 1, 0, 0]];
    let targets = [vec![6, 2, 1, 0, 0], vec![3, 17, 5, 2, 1]];
    let batch = fixture::batch(&inputs, &targets);
    tch::manual_seed(3);
    let output = T5::new(config.transformer()).loss(params, &batch, &LossSpec::default(), dropout);
    let gradients = params.gradients(&output.loss);
    let next = Tensor::rand([4], (tch::Kind::Float, tch::Device::Cpu));
    Found { loss: output.sums.read().get(sum::LOSS), gradients, next }
}

fn check(dtype: Dtype, dropout: Dropout) {
    check_of(fixture::tiny_config(), dtype, dropout);
    let of_umt5 = T5Config { relpos_bias_per_layer: true, ..fixture::tiny_config() };
    check_of(of_umt5, dtype, dropout);
    let of_t5_experiments =
        T5Config { num_memory_tokens: 3, num_cdq_heads: 1, ..fixture::tiny_config() };
    check_of(of_t5_experiments, dtype, dropout);
}

fn check_of(config: T5Config, dtype: Dtype, dropout: Dropout) {
    // On one thread sums have a fixed order.
    tch::set_num_threads(1);
    let (_, params) = fixture::drawn(1, config.clone());
    let _held = fixture::generator();
    let with = |remat_policy| T5Config { dtype, remat_policy, ..config.clone() };
    let expected = run(with(RematPolicy::None), &params, dropout);
    for policy in [RematPolicy::Minimal, RematPolicy::Full] {
        let found = run(with(policy), &params, dropout);
        assert_eq!(found.loss, expected.loss, "{policy:?}");
        assert_eq!(found.next, expected.next, "{policy:?}");
        let pairs = found.gradients.iter().zip(&expected.gradients);
        for ((name, _), (found, expected)) in params.iter().zip(pairs) {
            let distance = (found - expected).abs().max().double_value(&[]);
            assert!(found.equal(expected), "{policy:?}, {name}: off by {distance}");
        }
    }
}

#[test]
fn gradients_are_those_of_layers_that_keep_everything() {
    check(Dtype::Float32, Dropout::off());
    check(Dtype::Bfloat16, Dropout::off());
}

#[test]
fn masks_of_dropout_are_drawn_again() {
    check(Dtype::Float32, Dropout::train(0.3));
    check(Dtype::Bfloat16, Dropout::train(0.3));
}
