//! Plain operations in the place of libtorch's kernels, on any device. They accept, refuse and
//! return the same as the kernels, according to their sources, so that everything around them is
//! tested without a GPU.

use tch::{Device, Kind, Tensor};

use crate::nn::Runs;

use super::{Kept, Kernel, Operands, with_bias, with_runs, with_runs_and_bias};

pub(super) static EFFICIENT: Kernel = Kernel {
    operands: with_bias,
    refusal: |_| None,
    forward: |operands| {
        refuse_what_the_kernel_does(operands);
        attend(operands)
    },
    backward: |operands, kept, out_gradient| {
        let [query, key, value, bias] = gradients(operands, kept, out_gradient);
        let [query, key, value] = laid_out(operands, [query, key, value]);
        let bias = match operands.bias_needs {
            true => in_rows_of_16(&bias.to_kind(operands.query.kind())),
            false => Tensor::new(),
        };
        [query, key, value, bias]
    },
};

pub(super) static FLASH: Kernel = Kernel {
    operands: with_runs,
    refusal: |_| None,
    forward: attend_over_runs,
    backward: |operands, kept, out_gradient| {
        let [query, key, value, _] = gradients_over_runs(operands, kept, out_gradient);
        [query, key, value, Tensor::new()]
    },
};

pub(super) static CUDNN: Kernel = Kernel {
    operands: with_runs_and_bias,
    refusal: |_| None,
    forward: |operands| {
        check_offsets(operands);
        attend_over_runs(operands)
    },
    backward: |operands, kept, out_gradient| {
        assert!(operands.with_backward, "a backward pass was foretold");
        let [query, key, value, bias] = gradients_over_runs(operands, kept, out_gradient);
        let [query, key, value] = laid_out(operands, [query, key, value]);
        let kind = operands.query.kind();
        let bias = if operands.bias_needs { bias.to_kind(kind) } else { Tensor::new() };
        [query, key, value, bias]
    },
};

fn attend(operands: &Operands) -> Kept {
    let scores = scores(operands);
    let normalizers = scores.logsumexp([-1], false);
    let value = operands.value.transpose(1, 2).to_kind(Kind::Float);
    let heads = (scores - normalizers.unsqueeze(-1)).exp().matmul(&value);
    kept(heads.transpose(1, 2).to_kind(operands.query.kind()).contiguous(), normalizers)
}

/// Gradients of queries, keys and values, and that of the scores in float32, `[batch, heads, queries, keys]`.
fn gradients(operands: &Operands, kept: &Kept, out_gradient: &Tensor) -> [Tensor; 4] {
    let wide = |tensor: &Tensor| tensor.transpose(1, 2).to_kind(Kind::Float);
    let weights = (scores(operands) - kept.normalizers.unsqueeze(-1)).exp();
    let [query, key, value, out, gradient] =
        [&operands.query, &operands.key, &operands.value, &kept.out, out_gradient].map(wide);
    let delta = (&gradient * out).sum_dim_intlist(-1, true, Kind::Float);
    let of_scores = &weights * (gradient.matmul(&value.transpose(-2, -1)) - delta);
    let kind = operands.query.kind();
    let narrow = |tensor: Tensor| tensor.transpose(1, 2).to_kind(kind).contiguous();
    [
        narrow(of_scores.matmul(&key)),
        narrow(of_scores.transpose(-2, -1).matmul(&query)),
        narrow(weights.transpose(-2, -1).matmul(&gradient)),
        of_scores,
    ]
}

fn attend_over_runs(operands: &Operands) -> Kept {
    let out = Tensor::zeros(operands.query.size(), (operands.query.kind(), Device::Cpu));
    for_each_run(operands, |run, queries, _| {
        queries(&out).copy_(&attend(&run).out.view_as(&queries(&out)));
    });
    kept(out, Tensor::new())
}

/// The gradient of the bias is that of what all rows share.
fn gradients_over_runs(operands: &Operands, kept: &Kept, out_gradient: &Tensor) -> [Tensor; 4] {
    let [query, key, value] = [&operands.query, &operands.key, &operands.value]
        .map(|tensor| Tensor::zeros(tensor.size(), (tensor.kind(), Device::Cpu)));
    let bias = match operands.bias.defined() {
        true => Tensor::zeros(operands.bias.size(), (Kind::Float, Device::Cpu)),
        false => Tensor::new(),
    };
    for_each_run(operands, |run, queries, keys| {
        let again = attend(&run);
        assert_eq!(again.out, queries(&kept.out).view_as(&again.out));
        let gradient = queries(out_gradient).view_as(&again.out);
        let [q, k, v, scores] = gradients(&run, &again, &gradient);
        queries(&query).copy_(&q.view_as(&queries(&query)));
        keys(&key).copy_(&k.view_as(&keys(&key)));
        keys(&value).copy_(&v.view_as(&keys(&value)));
        if bias.defined() {
            let [num_queries, num_keys] = [scores.size()[2], scores.size()[3]];
            let _ = bias.narrow(2, 0, num_queries).narrow(3, 0, num_keys).g_add_(&scores);
        }
    });
    [query, key, value, bias]
}

/// Lays gradients side by side if that is asked for.
fn laid_out(operands: &Operands, gradients: [Tensor; 3]) -> [Tensor; 3] {
    if !operands.gradients_joined {
        return gradients;
    }
    let joined = Tensor::stack(&gradients, -3);
    [0, 1, 2].map(|index| joined.select(-3, index))
}

/// The starts of runs must be those of tensors that lie like these.
fn check_offsets(operands: &Operands) {
    let Some(runs) = operands.runs.as_ref().filter(|runs| !runs.are_whole_rows()) else { return };
    let starts = [0, 1].map(|side| runs.multiplied_starts(side, 1).expect("parts of rows"));
    let Operands { query, key, value, .. } = operands;
    let lies_dense = |part: &Tensor| part.contiguous();
    let tensors = [query, key, value, &lies_dense(query), &lies_dense(key)];
    for ((tensor, offsets), side) in tensors.iter().zip(&operands.offsets).zip([0, 1, 1, 0, 1]) {
        assert_eq!(*offsets, &starts[side] * tensor.stride()[0]);
        assert_eq!(offsets.kind(), Kind::Int);
    }
}

/// `[batch, heads, queries, keys]`
fn scores(operands: &Operands) -> Tensor {
    let wide = |tensor: &Tensor| tensor.transpose(1, 2).to_kind(Kind::Float);
    let scores = wide(&operands.query).matmul(&wide(&operands.key).transpose(-2, -1));
    if operands.bias.defined() { scores + operands.bias.to_kind(Kind::Float) } else { scores }
}

fn kept(out: Tensor, normalizers: Tensor) -> Kept {
    Kept { out, normalizers, random_seed: Tensor::new(), random_offset: Tensor::new() }
}

/// Source: PyTorch `aten/src/ATen/native/transformers/cuda/attention.cu`, and `check_supported` of the kernels.
fn refuse_what_the_kernel_does(operands: &Operands) {
    let Operands { query, key, value, bias, .. } = operands;
    for tensor in [query, key, value] {
        assert_eq!(
            (tensor.dim(), tensor.stride()[3]),
            (4, 1),
            "numbers of a head lie side by side"
        );
        assert!(tensor.stride()[..3].iter().all(|stride| stride % 8 == 0), "heads are aligned");
    }
    if bias.defined() {
        let [batch, queries, heads, _] = query.size()[..] else { panic!("four axes") };
        assert_eq!(bias.size(), [batch, heads, queries, key.size()[1]]);
        assert_eq!(bias.kind(), query.kind());
        assert_eq!(bias.stride()[3], 1);
        assert!(bias.stride()[..3].iter().all(|stride| stride % 8 == 0), "the bias is aligned");
    }
}

/// Returns the gradient of a bias as the kernel returns it: a part of wider rows.
fn in_rows_of_16(gradient: &Tensor) -> Tensor {
    let keys = gradient.size()[3];
    gradient.constant_pad_nd([0, (16 - keys % 16) % 16]).narrow(3, 0, keys)
}

/// Calls `body` with each run that has queries, and with functions that select its part of tensors
/// laid out as the queries and as the keys.
fn for_each_run(
    operands: &Operands,
    body: impl Fn(Operands, &dyn Fn(&Tensor) -> Tensor, &dyn Fn(&Tensor) -> Tensor),
) {
    let runs = operands.runs.as_ref();
    let places: Vec<[(i64, i64); 2]> = match runs.and_then(Runs::starts) {
        None => (0..operands.query.size()[0]).map(|row| [(row, 1); 2]).collect(),
        Some(starts) => {
            let starts = starts.each_ref().map(|starts| {
                assert_eq!(starts.kind(), Kind::Int);
                Vec::<i32>::try_from(starts).expect("int32 of one axis")
            });
            let run = |index: usize| {
                [0, 1].map(|side: usize| {
                    let [start, end] = [starts[side][index], starts[side][index + 1]];
                    let longest = runs.expect("they have starts").longest()[side];
                    assert!(i64::from(end - start) <= longest, "none is longer");
                    (i64::from(start), i64::from(end - start))
                })
            };
            (0..starts[0].len() - 1).map(run).filter(|run| run[0].1 > 0).collect()
        }
    };
    let is_causal = runs.is_some_and(Runs::are_causal);
    for [queries, keys] in places {
        let pick = |tensor: &Tensor, (start, length): (i64, i64)| tensor.narrow(0, start, length);
        let row = |tensor: Tensor| if tensor.dim() == 3 { tensor.unsqueeze(0) } else { tensor };
        let parts = [
            row(pick(&operands.query, queries)),
            row(pick(&operands.key, keys)),
            row(pick(&operands.value, keys)),
        ];
        let [num_queries, num_keys] = [parts[0].size()[1], parts[1].size()[1]];
        let hidden = match is_causal {
            true => {
                Tensor::full([num_queries, num_keys], -1e10, (Kind::Float, Device::Cpu)).triu(1)
            }
            false => Tensor::zeros([num_queries, num_keys], (Kind::Float, Device::Cpu)),
        };
        let bias = match operands.bias.defined() {
            true => operands.bias.narrow(2, 0, num_queries).narrow(3, 0, num_keys) + hidden,
            false => hidden,
        };
        let run = Operands { bias, ..Operands::of(parts, None) };
        body(run, &|tensor| pick(tensor, queries), &|tensor| pick(tensor, keys));
    }
}
