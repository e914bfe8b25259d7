//! Plain operations in the place of libtorch's kernels, on any device. They accept, refuse and
//! return the same as the kernels, according to their sources, so that everything around them is
//! tested without a GPU.

use tch::{Device, Kind, Tensor};

use super::{Kept, Kernel, Operands, with_bias, with_runs};

pub(super) static EFFICIENT: Kernel = Kernel {
    operands: with_bias,
    forward: |operands| {
        refuse_what_the_kernel_does(operands);
        let scores = scores(operands);
        let normalizers = scores.logsumexp([-1], false);
        let value = operands.value.transpose(1, 2).to_kind(Kind::Float);
        let heads = (scores - normalizers.unsqueeze(-1)).exp().matmul(&value);
        let out = heads.transpose(1, 2).to_kind(operands.query.kind()).contiguous();
        kept(out, normalizers)
    },
    backward: |operands, kept, out_gradient| {
        let wide = |tensor: &Tensor| tensor.transpose(1, 2).to_kind(Kind::Float);
        let weights = (scores(operands) - kept.normalizers.unsqueeze(-1)).exp();
        let [query, key, value, out, gradient] =
            [&operands.query, &operands.key, &operands.value, &kept.out, out_gradient].map(wide);
        let delta = (&gradient * out).sum_dim_intlist(-1, true, Kind::Float);
        let of_scores = &weights * (gradient.matmul(&value.transpose(-2, -1)) - delta);
        let kind = operands.query.kind();
        let narrow = |tensor: Tensor| tensor.transpose(1, 2).to_kind(kind).contiguous();
        let gradients = [
            narrow(of_scores.matmul(&key)),
            narrow(of_scores.transpose(-2, -1).matmul(&query)),
            narrow(weights.transpose(-2, -1).matmul(&gradient)),
        ];
        let [query, key, value] = match operands.gradients_joined {
            true => {
                let joined = Tensor::stack(&gradients, 2);
                [0, 1, 2].map(|index| joined.select(2, index))
            }
            false => gradients,
        };
        let bias = match operands.bias_needs {
            true => in_rows_of_16(&of_scores.to_kind(kind)),
            false => Tensor::new(),
        };
        [query, key, value, bias]
    },
};

pub(super) static FLASH: Kernel = Kernel {
    operands: with_runs,
    forward: |operands| {
        let out = Tensor::zeros(operands.query.size(), (operands.query.kind(), Device::Cpu));
        for_each_run(operands, |run, queries, _| {
            let kept = (EFFICIENT.forward)(&run);
            queries(&out).copy_(&kept.out.view_as(&queries(&out)));
        });
        kept(out, Tensor::new())
    },
    backward: |operands, kept, out_gradient| {
        let [query, key, value] = [&operands.query, &operands.key, &operands.value]
            .map(|tensor| Tensor::zeros(tensor.size(), (tensor.kind(), Device::Cpu)));
        for_each_run(operands, |run, queries, keys| {
            let again = (EFFICIENT.forward)(&run);
            assert_eq!(again.out, queries(&kept.out).view_as(&again.out));
            let gradient = queries(out_gradient).view_as(&again.out);
            let [q, k, v, _] = (EFFICIENT.backward)(&run, &again, &gradient);
            queries(&query).copy_(&q.view_as(&queries(&query)));
            keys(&key).copy_(&k.view_as(&keys(&key)));
            keys(&value).copy_(&v.view_as(&keys(&value)));
        });
        [query, key, value, Tensor::new()]
    },
};

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
    let places: Vec<[(i64, i64); 2]> = match operands.starts[0].defined() {
        false => (0..operands.query.size()[0]).map(|row| [(row, 1); 2]).collect(),
        true => {
            let starts = operands.starts.each_ref().map(|starts| {
                assert_eq!(starts.kind(), Kind::Int);
                Vec::<i32>::try_from(starts).expect("int32 of one axis")
            });
            let run = |index: usize| {
                [0, 1].map(|side: usize| {
                    let [start, end] = [starts[side][index], starts[side][index + 1]];
                    assert!(i64::from(end - start) <= operands.longest[side], "none is longer");
                    (i64::from(start), i64::from(end - start))
                })
            };
            (0..starts[0].len() - 1).map(run).filter(|run| run[0].1 > 0).collect()
        }
    };
    for [queries, keys] in places {
        let pick = |tensor: &Tensor, (start, length): (i64, i64)| tensor.narrow(0, start, length);
        let row = |tensor: Tensor| if tensor.dim() == 3 { tensor.unsqueeze(0) } else { tensor };
        let run = Operands {
            query: row(pick(&operands.query, queries)),
            key: row(pick(&operands.key, keys)),
            value: row(pick(&operands.value, keys)),
            bias: Tensor::new(),
            bias_needs: false,
            gradients_joined: false,
            starts: [(); 2].map(|()| Tensor::new()),
            longest: [0; 2],
        };
        body(run, &|tensor| pick(tensor, queries), &|tensor| pick(tensor, keys));
    }
}
