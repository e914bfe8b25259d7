//! Tests of everything around the kernels, with replacements for them.

use super::*;
use crate::nn::autograd::panic_message;
use crate::nn::{Dropout, Joined, Runs, causal_mask, pairs, same_segment};
use std::panic::{AssertUnwindSafe, catch_unwind};
use tch::{Device, Kind};

struct Case {
    kernel: &'static Kernel,
    kind: Kind,
    position: bool,
    /// Segment ids of queries and of keys, [batch, length].
    ids: [Tensor; 2],
    causal: bool,
    /// Layout of queries, keys and values: how many of them lie side by side in each tensor.
    joined: &'static [usize],
    dropout: Dropout,
}

fn ids<const N: usize>(rows: &[[i64; N]]) -> Tensor {
    Tensor::from_slice2(rows)
}

/// Returns the result for queries that are not padding, and the gradients of all inputs.
fn run(
    case: &Case,
    attend: impl Fn(&Heads, Option<&Tensor>, &AttentionBias) -> Tensor,
) -> Vec<Tensor> {
    tch::manual_seed(1);
    let [query_ids, key_ids] = &case.ids;
    let (batch, heads, width) = (query_ids.size()[0], 3, 8);
    let leaf = |size: &[i64]| {
        let values = Tensor::randn(size, (Kind::Float, Device::Cpu)).to_kind(case.kind);
        values.set_requires_grad(true)
    };
    let (queries, keys) = (query_ids.size()[1], key_ids.size()[1]);
    // As projections return them: heads side by side.
    let mut lengths = [queries, keys, keys].into_iter();
    let wholes = case.joined.iter().map(|&count| {
        let length = lengths.by_ref().take(count).last().expect("it holds something");
        leaf(&[batch, length, count as i64 * heads * width])
    });
    let wholes: Vec<Tensor> = wholes.collect();
    // A number for each distance, as relative positions have: only then may each example read the bias from its start.
    let by_distance = leaf(&[heads, queries + keys - 1]);
    let position = by_distance.unfold(1, keys, 1).unsqueeze(0).flip([2]);
    let joined = Joined::new(wholes.iter().map(Tensor::shallow_clone).collect(), 3);
    let heads = Heads { joined, count: heads };
    let [_, _, value] = heads.split();
    let factors = case.dropout.mask_of_keys(&value.detach());
    let (real_query, real_key) = (query_ids.gt(0), key_ids.gt(0));
    let mut allowed = pairs(&real_query, &real_key).logical_and(&same_segment(query_ids, key_ids));
    if case.causal {
        allowed = allowed.logical_and(&causal_mask(queries, Device::Cpu));
    }
    let learned = case.position.then(|| position.shallow_clone());
    let runs = Runs::between(query_ids, key_ids, Device::Cpu);
    let runs = if case.causal { runs.map(Runs::causal) } else { runs };
    let bias = AttentionBias::new(learned, &allowed).over(runs);
    let out = attend(&heads, factors.as_ref(), &bias) * real_query.unsqueeze(-1).to_kind(case.kind);
    let weights = Tensor::randn(out.size(), (Kind::Float, Device::Cpu));
    (out.to_kind(Kind::Float) * weights).sum(Kind::Float).backward();
    let mut found = vec![out.detach()];
    found.extend(wholes.iter().map(Tensor::grad));
    found.extend(case.position.then(|| by_distance.grad()));
    found
}

fn written_out(heads: &Heads, factors: Option<&Tensor>, bias: &AttentionBias) -> Tensor {
    let [query, key, value] = heads.split();
    let [wide_query, wide_key] = [&query, &key].map(|tensor| tensor.to_kind(Kind::Float));
    let scores = wide_query.matmul(&wide_key.transpose(-2, -1)) + bias.dense(Kind::Float);
    let weights = scores.softmax(-1, Kind::Float);
    let weights = match factors {
        Some(factors) => weights * factors.transpose(-2, -1),
        None => weights,
    };
    let averages = weights.matmul(&value.to_kind(Kind::Float));
    averages.to_kind(query.kind()).transpose(1, 2).flatten(2, 3)
}

fn learned(ids: [Tensor; 2]) -> Case {
    Case {
        kernel: &stand_in::EFFICIENT,
        kind: Kind::Float,
        position: true,
        ids,
        causal: false,
        joined: &[1, 1, 1],
        dropout: Dropout::off(),
    }
}

fn check(case: &Case, bound: f64) {
    let _held = crate::nn::GENERATOR.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let found = run(case, |heads, factors, bias| {
        attention(case.kernel, heads, factors, bias).expect("a stand-in refuses nothing")
    });
    let expected = run(case, written_out);
    assert_eq!(found.len(), expected.len());
    for (index, (found, expected)) in found.iter().zip(&expected).enumerate() {
        assert_eq!((found.size(), found.kind()), (expected.size(), expected.kind()));
        let [found, expected] = [found, expected].map(|tensor| tensor.to_kind(Kind::Double));
        let norm = expected.norm().double_value(&[]);
        let error = (found - &expected).norm().double_value(&[]) / norm;
        assert!(norm > 0.0 && error < bound, "tensor {index}: relative error {error}");
    }
}

#[test]
fn with_a_learned_bias_over_rows_that_no_kernel_could_read() {
    for (kind, bound) in [(Kind::Float, 1e-5), (Kind::BFloat16, 2e-2)] {
        let ids = ids(&[[1; 13], [1; 13]]);
        let ids = [ids.shallow_clone(), ids];
        let case = Case { kind, causal: true, ..learned(ids) };
        check(&case, bound);
    }
}

#[test]
fn with_a_learned_bias_padding_and_packed_examples() {
    let ids = ids(&[[1, 1, 1, 2, 2, 0], [1, 1, 0, 0, 0, 0], [1, 2, 3, 3, 4, 4]]);
    let ids = [ids.shallow_clone(), ids];
    check(&learned(ids), 1e-5);
}

#[test]
fn over_runs_with_a_learned_bias_that_rows_share() {
    let packed = ids(&[[1, 1, 1, 2, 2, 0], [1, 1, 0, 0, 0, 0], [1, 2, 3, 3, 4, 4]]);
    for ids in [packed, ids(&[[1; 13], [1; 13]])] {
        for (joined, dropout) in [(&[3][..], Dropout::train(0.3)), (&[1, 1, 1], Dropout::off())] {
            for causal in [false, true] {
                let ids = [ids.shallow_clone(), ids.shallow_clone()];
                let kernel = &stand_in::CUDNN;
                check(&Case { kernel, joined, dropout, causal, ..learned(ids) }, 1e-5);
            }
        }
    }
}

#[test]
fn gradients_of_what_one_product_made_lie_as_it_does() {
    let ids = ids(&[[1, 1, 1, 2, 2, 0], [1, 1, 0, 0, 0, 0], [1, 2, 3, 3, 4, 4]]);
    for dropout in [Dropout::off(), Dropout::train(0.3)] {
        let ids = [ids.shallow_clone(), ids.shallow_clone()];
        check(&Case { joined: &[3], dropout, ..learned(ids) }, 1e-5);
    }
}

#[test]
fn between_padded_and_packed_sequences_without_a_bias() {
    let queries = ids(&[[1, 1, 1, 2, 0], [1, 1, 0, 0, 0], [1, 1, 1, 1, 1]]);
    let keys = ids(&[[1, 2, 2, 0, 0, 0, 0], [1, 1, 1, 1, 1, 1, 0], [1, 1, 1, 1, 1, 1, 1]]);
    for kernel in [&stand_in::EFFICIENT, &stand_in::FLASH, &stand_in::CUDNN] {
        let ids = [queries.shallow_clone(), keys.shallow_clone()];
        let joined: &[usize] = &[1, 2];
        let dropout = Dropout::train(0.3);
        check(&Case { kernel, position: false, joined, dropout, ..learned(ids) }, 1e-5);
    }
}

#[test]
fn between_full_sequences_without_a_bias() {
    for kernel in [&stand_in::EFFICIENT, &stand_in::FLASH, &stand_in::CUDNN] {
        let ids = [ids(&[[1; 5], [1; 5]]), ids(&[[1; 7], [1; 7]])];
        check(&Case { kernel, position: false, ..learned(ids) }, 1e-5);
    }
}

/// Returns libtorch's message for the call, which names the operation without a kernel for CPUs.
fn refusal(call: impl FnOnce()) -> String {
    let panic = catch_unwind(AssertUnwindSafe(call)).expect_err("there is none for CPUs");
    panic_message(panic.as_ref())
}

#[test]
fn calls_reach_the_operations_of_libtorch() {
    let heads = Tensor::ones([2, 3, 8, 8], (Kind::BFloat16, Device::Cpu));
    let allowed = Tensor::ones([2, 1, 8, 8], (Kind::Bool, Device::Cpu));
    let padded = ids(&[[1, 1, 1, 1, 1, 1, 1, 0], [1, 1, 1, 1, 1, 1, 0, 0]]);
    let runs = Runs::between(&padded, &padded, Device::Cpu);
    let bias = AttentionBias::new(None, &allowed).over(runs);
    for (kernel, stand_in, name) in [
        (&EFFICIENT, &stand_in::EFFICIENT, "aten::_efficient_attention_"),
        (&FLASH, &stand_in::FLASH, "aten::_flash_attention_"),
    ] {
        let operands = (kernel.operands)([&heads; 3], &bias);
        let said = refusal(|| drop((kernel.forward)(&operands)));
        assert!(said.contains(&format!("{name}forward")), "{said}");
        let kept = (stand_in.forward)(&operands);
        let said = refusal(|| drop((kernel.backward)(&operands, &kept, &kept.out)));
        assert!(said.contains(&format!("{name}backward")), "{said}");
    }
}

#[test]
fn without_cudnn_another_kernel_is_asked() {
    let heads = Tensor::ones([2, 3, 8, 8], (Kind::BFloat16, Device::Cpu));
    let full = ids(&[[1; 8], [1; 8]]);
    let allowed = Tensor::ones([1, 1, 1, 1], (Kind::Bool, Device::Cpu));
    let bias = AttentionBias::new(None, &allowed).over(Runs::between(&full, &full, Device::Cpu));
    let operands = (CUDNN.operands)([&heads; 3], &bias);
    let reason = (CUDNN.refusal)(&operands).expect("there is none for CPUs");
    assert!(!reason.is_empty());
    let joined = Joined::new(vec![Tensor::ones([2, 8, 24], (Kind::BFloat16, Device::Cpu))], 3);
    let heads = Heads { joined, count: 1 };
    assert!(attention(&CUDNN, &heads, None, &bias).is_none());
}
