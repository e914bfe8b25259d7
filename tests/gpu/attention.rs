//! Compares attention by kernels of cuDNN and libtorch with plain operations, in shapes whose rows kernels
//! cannot read in place, with padding and with packed examples.

use gimlet::nn::fused::kernels::Kernel;
use gimlet::nn::{
    AttentionBias, AttentionDims, Dropout, Heads, Joined, Params, Projection, Projections, Runs,
    attention,
};
use tch::{Device, Kind, Tensor};

use crate::{Comparison, EFFICIENT, FLASH, compare_ways, cuda, over_runs, random};

const EMBED: i64 = 96;

struct Case {
    kind: Kind,
    learned: bool,
    dropout: Dropout,
    /// Segment ids on the CPU, int64 [batch, length].
    query_ids: Tensor,
    key_ids: Tensor,
    /// Whether a query sees no later key, in self-attention.
    causal: bool,
    /// Whether the host provides the starts of runs.
    runs: bool,
    /// The operations that compute it in bfloat16 and float16.
    kernels: &'static [&'static str; 2],
}

/// Returns the results of real queries, and the gradients of all parameters and inputs.
fn results(case: &Case, leaves: &[Tensor; 3], params: &Params, by_kernel: bool) -> Vec<Tensor> {
    let [inputs, context, position] = leaves;
    // Kernels have scores in float32; plain operations need the option.
    let dims = AttentionDims { num_heads: 4, head_dim: 64, float32_logits: !by_kernel };
    let projections = |names: &[&str]| {
        let projection = |name| Projection::new(params, &format!("x/{name}"), case.kind);
        Projections::new(names.iter().map(projection).collect())
    };
    let ids = [&case.query_ids, &case.key_ids].map(|ids| ids.to_device(Device::Cuda(0)));
    let [real_query, real_key] = ids.each_ref().map(|ids| ids.gt(0));
    let allowed = gimlet::nn::pairs(&real_query, &real_key)
        .logical_and(&gimlet::nn::same_segment(&ids[0], &ids[1]));
    let runs = || {
        let runs = Runs::between(&case.query_ids, &case.key_ids, Device::Cuda(0));
        if case.causal { runs.map(Runs::causal) } else { runs }
    };
    let allowed = match case.causal {
        true => allowed.logical_and(&gimlet::nn::causal_mask(ids[0].size()[1], Device::Cuda(0))),
        false => allowed,
    };
    let keys = case.key_ids.size()[1];
    let learned = case.learned.then(|| {
        // A number for each distance, as relative positions have.
        let position = position.to_kind(case.kind);
        position.unfold(1, keys, 1).unsqueeze(0).flip([2])
    });
    let bias = AttentionBias::new(learned, &allowed).over(case.runs.then(runs).flatten());
    let context = if case.learned { inputs } else { context };
    let [inputs, context] = [inputs, context].map(|tensor| tensor.to_kind(case.kind));
    let wholes = match case.learned {
        true => projections(&["query", "key", "value"]).forward(&inputs).into_wholes(),
        false => {
            let key_value = projections(&["key", "value"]).forward(&context);
            let query = projections(&["query"]).forward(&inputs);
            query.into_wholes().into_iter().chain(key_value.into_wholes()).collect()
        }
    };
    let heads = Heads { joined: Joined::new(wholes, 3), count: dims.num_heads };
    let output = attention(&heads, &bias, &dims, case.dropout);
    let output = Projection::new(params, "x/out", case.kind).forward(&output);
    let output = output * real_query.unsqueeze(-1).to_kind(case.kind);
    let [inputs, context, position] = leaves;
    let mut read = vec![inputs, if case.learned { position } else { context }];
    read.extend(params.iter().map(|(_, kernel)| kernel));
    crate::with_gradients(&[output], &read)
}

fn check(what: &str, case: &Case) {
    let leaf =
        |size: &[i64], scale: f64| (random(size, Kind::Float) * scale).set_requires_grad(true);
    let (batch, queries) = case.query_ids.size2().expect("ids have two axes");
    let keys = case.key_ids.size()[1];
    let kernels = ["query", "key", "value", "out"].map(|name| {
        let size = if name == "out" { [256, EMBED] } else { [EMBED, 256] };
        (format!("x/{name}/kernel"), leaf(&size, 0.05))
    });
    let params = Params::from_tensors(kernels);
    let leaves = [
        leaf(&[batch, queries, EMBED], 1.0),
        leaf(&[batch, keys, EMBED], 1.0),
        leaf(&[4, queries + keys - 1], 1.0),
    ];
    let tolerance = if case.kind == Kind::Float { 2e-5 } else { 3e-2 };
    let what = format!("{what} {:?}", case.kind);
    let kernels = if case.kind == Kind::Float { &EFFICIENT } else { case.kernels };
    let comparison = Comparison { what: &what, kernels, tolerance };
    compare_ways(&comparison, |by_kernel| results(case, &leaves, &params, by_kernel));
}

/// Rows of that many positions, each with examples of these lengths and then padding.
fn ids(length: usize, rows: &[&[usize]]) -> Tensor {
    let row = |lengths: &&[usize]| {
        let examples = lengths.iter().zip(1i64..);
        let mut ids: Vec<i64> =
            examples.flat_map(|(&count, id)| std::iter::repeat_n(id, count)).collect();
        ids.resize(length, 0);
        Tensor::from_slice(&ids)
    };
    Tensor::stack(&rows.iter().map(row).collect::<Vec<_>>(), 0)
}

#[test]
fn self_attention_with_a_learned_bias() {
    let (_device, _held) = cuda();
    for kind in [Kind::Float, Kind::BFloat16, Kind::Half] {
        let cases: [(usize, [&[usize]; 3]); 3] = [
            (512, [&[512], &[512], &[512]]),
            (114, [&[114], &[60, 50], &[1]]),
            (70, [&[69], &[10, 20, 30], &[2, 68]]),
        ];
        for (length, rows) in cases {
            for (dropout, causal) in [(Dropout::off(), false), (Dropout::train(0.1), true)] {
                for (runs, kernels) in [(true, over_runs(true)), (false, &EFFICIENT)] {
                    let (query_ids, key_ids) = (ids(length, &rows), ids(length, &rows));
                    let case = Case {
                        kind,
                        learned: true,
                        dropout,
                        query_ids,
                        key_ids,
                        causal,
                        runs,
                        kernels,
                    };
                    check(&format!("self attention {length}, runs: {runs}"), &case);
                }
            }
        }
    }
}

#[test]
fn cross_attention_over_runs_and_with_masks() {
    let (_device, _held) = cuda();
    for kind in [Kind::Float, Kind::BFloat16, Kind::Half] {
        let cases: [[[&[usize]; 3]; 2]; 3] = [
            [[&[114], &[114], &[114]], [&[512], &[512], &[512]]],
            [[&[114], &[50], &[1]], [&[512], &[300], &[5]]],
            [[&[100], &[50, 60], &[1, 2, 111]], [&[500], &[300, 200], &[5, 500, 7]]],
        ];
        for [queries, keys] in cases {
            for kernels in [over_runs(false), &FLASH, &EFFICIENT] {
                let (query_ids, key_ids) = (ids(114, &queries), ids(512, &keys));
                let case = Case {
                    kind,
                    learned: false,
                    dropout: Dropout::train(0.1),
                    query_ids,
                    key_ids,
                    causal: false,
                    runs: kernels != &EFFICIENT,
                    kernels,
                };
                // libtorch's is used where cuDNN's is not there.
                Kernel::CudnnAttention.trust(kernels != &FLASH);
                check(&format!("cross attention by {}", kernels[0]), &case);
                Kernel::CudnnAttention.trust(true);
            }
        }
    }
}
