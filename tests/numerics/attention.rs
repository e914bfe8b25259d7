//! Compares attention in one operation with plain operations, whose gradients are libtorch's.

use gimlet::nn::{
    AttentionBias, AttentionDims, Dropout, Heads, Joined, Params, Projection, Projections,
    attention,
};
use tch::{Device, Kind, Tensor};

use crate::fixture;

const EMBED: i64 = 24;

struct Case {
    batch: i64,
    num_heads: i64,
    q_length: i64,
    kv_length: i64,
    kind: Kind,
    dropout: Dropout,
    /// Whether it is self-attention.
    itself: bool,
    /// Whether positions have a bias that is learned.
    position: bool,
    allowed: Tensor,
}

/// Returns the outputs, then the gradients of all parameters and inputs.
fn run(case: &Case, fused: bool) -> Vec<Tensor> {
    tch::manual_seed(1);
    let leaf = |size: &[i64], scale: f64| {
        let values = Tensor::randn(size, (Kind::Float, Device::Cpu)) * scale;
        values.detach().set_requires_grad(true)
    };
    let joined = case.num_heads * 8;
    let kernels = ["query", "key", "value", "out"].map(|name| {
        let size = if name == "out" { [joined, EMBED] } else { [EMBED, joined] };
        (format!("x/{name}/kernel"), leaf(&size, 0.3))
    });
    let params = Params::from_tensors(kernels);
    let inputs = leaf(&[case.batch, case.q_length, EMBED], 1.0);
    let context = leaf(&[case.batch, case.kv_length, EMBED], 1.0);
    let position = leaf(&[1, case.num_heads, case.q_length, case.kv_length], 1.0);
    let dims = AttentionDims { num_heads: case.num_heads, head_dim: 8, float32_logits: true };
    let bias = case.position.then(|| position.to_kind(case.kind));
    let bias = AttentionBias::new(bias, &case.allowed);
    let [inputs_cast, context_cast] = [&inputs, &context].map(|tensor| tensor.to_kind(case.kind));
    tch::manual_seed(2);
    let context_cast = if case.itself { &inputs_cast } else { &context_cast };
    let output = match (fused, case.itself) {
        (false, _) => written_out(case, &params, [&inputs_cast, context_cast], &bias),
        (true, itself) => {
            let projections = |names: &[&str]| {
                let projection = |name| Projection::new(&params, &format!("x/{name}"), case.kind);
                Projections::new(names.iter().map(projection).collect())
            };
            let wholes = match itself {
                true => projections(&["query", "key", "value"]).forward(&inputs_cast).into_wholes(),
                false => {
                    let key_value = projections(&["key", "value"]).forward(context_cast);
                    let query = projections(&["query"]).forward(&inputs_cast);
                    query.into_wholes().into_iter().chain(key_value.into_wholes()).collect()
                }
            };
            let heads = Heads { joined: Joined::new(wholes, 3), count: case.num_heads };
            let averages = attention(&heads, &bias, &dims, case.dropout);
            Projection::new(&params, "x/out", case.kind).forward(&averages)
        }
    };
    let weights = Tensor::randn(output.size(), (Kind::Float, Device::Cpu));
    (output.to_kind(Kind::Float) * weights).sum(Kind::Float).backward();
    let mut found = vec![output.detach(), inputs.grad()];
    found.extend((!case.itself).then(|| context.grad()));
    found.extend(params.iter().map(|(_, kernel)| kernel.grad()));
    found.extend(case.position.then(|| position.grad()));
    found
}

/// Computes the attention of one input to the other, each projection and each head's scores
/// separately.
fn written_out(
    case: &Case,
    params: &Params,
    [inputs, context]: [&Tensor; 2],
    bias: &AttentionBias,
) -> Tensor {
    let kernel = |name: &str| params.cast(&format!("x/{name}/kernel"), case.kind);
    let heads = |inputs: &Tensor, name: &str| {
        inputs.matmul(&kernel(name)).view([case.batch, -1, case.num_heads, 8]).transpose(1, 2)
    };
    let wide = |heads: Tensor| heads.to_kind(Kind::Float);
    let (query, key) = (wide(heads(inputs, "query")), wide(heads(context, "key")));
    let scores = query.matmul(&key.transpose(-2, -1)) + bias.dense(Kind::Float);
    let weights = scores.softmax(-1, Kind::Float).to_kind(case.kind);
    // One mask for all queries, as in T5X.
    let weights = case.dropout.apply_along_length(weights);
    let averages = weights.matmul(&heads(context, "value"));
    averages.transpose(1, 2).flatten(2, 3).matmul(&kernel("out"))
}

fn check(case: &Case, bound: f64) {
    let _held = fixture::generator();
    let (found, expected) = (run(case, true), run(case, false));
    assert_eq!(found.len(), expected.len());
    for (index, (found, expected)) in found.iter().zip(&expected).enumerate() {
        let (found, expected) = (found.to_kind(Kind::Double), expected.to_kind(Kind::Double));
        let norm = expected.norm().double_value(&[]);
        assert!(norm > 0.0, "tensor {index} is zero");
        let error = (found - &expected).norm().double_value(&[]) / norm;
        assert!(error < bound, "tensor {index}: relative error {error}");
    }
}

fn all_pairs(size: &[i64]) -> Tensor {
    Tensor::ones(size, (Kind::Bool, Device::Cpu))
}

fn plain() -> Case {
    Case {
        batch: 5,
        num_heads: 3,
        q_length: 20,
        kv_length: 20,
        kind: Kind::Float,
        dropout: Dropout::off(),
        itself: false,
        position: true,
        allowed: all_pairs(&[5, 1, 20, 20]),
    }
}

/// Returns a mask of rows with different lengths, whose last queries may have no key.
fn ragged(batch: i64, q_length: i64, kv_length: i64) -> Tensor {
    let real = |length: i64| {
        let ends = Tensor::arange(batch, (Kind::Int64, Device::Cpu)) + length - batch + 1;
        Tensor::arange(length, (Kind::Int64, Device::Cpu)).lt_tensor(&ends.unsqueeze(-1))
    };
    gimlet::nn::pairs(&real(q_length), &real(kv_length))
}

#[test]
fn with_a_learned_bias() {
    check(&plain(), 1e-6);
}

#[test]
fn with_padding_and_a_causal_mask() {
    let causal = gimlet::nn::causal_mask(20, Device::Cpu);
    let allowed = ragged(5, 20, 20).logical_and(&causal);
    check(&Case { allowed, ..plain() }, 1e-6);
}

#[test]
fn between_sequences_of_other_lengths_without_a_bias() {
    let case = Case { q_length: 11, position: false, allowed: ragged(5, 11, 20), ..plain() };
    check(&case, 1e-6);
}

#[test]
fn with_a_mask_for_keys_alone() {
    let allowed = ragged(5, 20, 20).any_dim(2, true);
    check(&Case { allowed, ..plain() }, 1e-6);
}

#[test]
fn with_dropout_of_the_same_draws() {
    check(&Case { dropout: Dropout::train(0.3), ..plain() }, 1e-6);
}

#[test]
fn to_itself() {
    check(&Case { itself: true, ..plain() }, 1e-6);
    check(&Case { itself: true, dropout: Dropout::train(0.3), ..plain() }, 1e-6);
    check(&Case { itself: true, kind: Kind::BFloat16, ..plain() }, 2e-2);
}

#[test]
fn in_several_blocks_of_queries() {
    let (q_length, kv_length) = (40, 17_000);
    let allowed = all_pairs(&[1, 1, q_length, kv_length]);
    check(&Case { batch: 1, num_heads: 2, q_length, kv_length, allowed, ..plain() }, 1e-5);
}

#[test]
fn in_bfloat16_up_to_its_rounding() {
    check(&Case { kind: Kind::BFloat16, ..plain() }, 2e-2);
}

#[test]
fn threads_add_up_the_bias_gradient_in_one_order() {
    let case = plain();
    let _held = fixture::generator();
    tch::set_num_threads(4);
    let first = run(&case, true);
    for _ in 0..20 {
        assert!(first == run(&case, true), "another run gave other bits");
    }
}
