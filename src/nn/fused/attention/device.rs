//! On CUDA devices, by libtorch's kernels: the Rust side of `bridge/device_attention.cpp`.

use std::ffi::c_char;

use tch::Tensor;

use crate::nn::autograd::{RawTensor, check, custom_function, raw};
use crate::nn::masks::AttentionBias;
use crate::nn::profiler::{Part, part};

#[repr(C)]
struct RawOperands {
    query: RawTensor,
    key: RawTensor,
    value: RawTensor,
    bias: RawTensor,
    query_starts: RawTensor,
    key_starts: RawTensor,
    longest_query_run: i64,
    longest_key_run: i64,
}

#[repr(C)]
struct RawKept {
    out: RawTensor,
    normalizers: RawTensor,
    random_seed: RawTensor,
    random_offset: RawTensor,
}

#[repr(C)]
struct RawGradients {
    query: RawTensor,
    key: RawTensor,
    value: RawTensor,
    bias: RawTensor,
}

unsafe extern "C" {
    fn gimlet_efficient_attention(
        operands: *const RawOperands,
        kept: *const RawKept,
    ) -> *mut c_char;
    fn gimlet_efficient_attention_backward(
        operands: *const RawOperands,
        kept: *const RawKept,
        out_gradient: RawTensor,
        bias_needs: bool,
        gradients: *const RawGradients,
    ) -> *mut c_char;
    fn gimlet_flash_attention(operands: *const RawOperands, kept: *const RawKept) -> *mut c_char;
    fn gimlet_flash_attention_backward(
        operands: *const RawOperands,
        kept: *const RawKept,
        out_gradient: RawTensor,
        gradients: *const RawGradients,
    ) -> *mut c_char;
}

/// What a kernel reads, detached.
struct Operands {
    query: Tensor, // [batch, length, heads, width], or [batch * length, heads, width] with runs
    key: Tensor,
    value: Tensor,
    /// `[batch, heads, queries, keys]`, or undefined.
    bias: Tensor,
    /// Whether the bias' gradient is asked for.
    bias_needs: bool,
    /// Undefined without runs.
    starts: [Tensor; 2],
    /// Queries and keys of the longest run.
    longest: [i64; 2],
}

/// What a forward pass leaves: its result, of the queries' shape, and what the backward pass goes by.
struct Kept {
    out: Tensor,
    normalizers: Tensor,
    random_seed: Tensor,
    random_offset: Tensor,
}

/// A kernel: how it is prepared for and called, forward and backward. Tests put plain operations in its place.
pub(super) struct Kernel {
    operands: fn([&Tensor; 3], &AttentionBias) -> Operands,
    forward: fn(&Operands) -> Kept,
    /// Gradients of query, key, value and bias, the last undefined where nobody asks.
    backward: fn(&Operands, &Kept, &Tensor) -> [Tensor; 4],
}

/// With a bias, and the gradient of a learned one.
pub(super) static EFFICIENT: Kernel = Kernel {
    operands: with_bias,
    forward: |operands| Kept::by(operands, gimlet_efficient_attention),
    backward: |operands, kept, out_gradient| {
        let found = [(); 4].map(|()| Tensor::new());
        let (raw_in, raw_kept, gradients) = (operands.raw(), kept.raw(), raw_gradients(&found));
        // SAFETY: all tensors outlive the call.
        check(unsafe {
            gimlet_efficient_attention_backward(
                &raw_in,
                &raw_kept,
                raw(out_gradient),
                operands.bias_needs,
                &gradients,
            )
        });
        found
    },
};

/// Without a bias, over runs or everything.
pub(super) static FLASH: Kernel = Kernel {
    operands: with_runs,
    forward: |operands| Kept::by(operands, gimlet_flash_attention),
    backward: |operands, kept, out_gradient| {
        let found = [(); 4].map(|()| Tensor::new());
        let (raw_in, raw_kept, gradients) = (operands.raw(), kept.raw(), raw_gradients(&found));
        // SAFETY: all tensors outlive the call.
        check(unsafe {
            gimlet_flash_attention_backward(&raw_in, &raw_kept, raw(out_gradient), &gradients)
        });
        found
    },
};

/// See [`super::fused_attention`].
pub(super) fn attention(
    kernel: &'static Kernel,
    in_heads: [&Tensor; 3],
    bias: &AttentionBias,
) -> Tensor {
    let _part = part(Part::Attention);
    let [query, key, value] = in_heads;
    let (batch, _, length, _) = query.size4().expect("queries have four axes");
    let position = bias.position.as_ref().map_or_else(Tensor::new, Tensor::shallow_clone);
    let operands = tch::no_grad(|| (kernel.operands)(in_heads, bias));
    let kept = tch::no_grad(|| (kernel.forward)(&operands));
    let out = kept.out.shallow_clone();
    // The result that is kept must not know how it came to be.
    let kept = Kept { out: kept.out.detach(), ..kept };
    let backward = move |gradients: Vec<Tensor>| {
        let _part = part(Part::Attention);
        let [query, key, value, bias] = (kernel.backward)(&operands, &kept, &gradients[0]);
        let by_head = |gradient: Tensor| {
            let (heads, width) =
                (gradient.size()[gradient.dim() - 2], *gradient.size().last().expect("axes"));
            gradient.reshape([batch, -1, heads, width]).transpose(1, 2)
        };
        let position = if bias.defined() { sum_over_batch(&bias) } else { bias };
        vec![by_head(query), by_head(key), by_head(value), position]
    };
    let out = custom_function(&[query, key, value, &position], vec![out], backward).remove(0);
    out.reshape([batch, length, -1])
}

/// The gradient of a bias that all rows of the batch share, `[1, heads, queries, keys]`, from theirs.
fn sum_over_batch(gradient: &Tensor) -> Tensor {
    // Added up in float32 whatever the dtype, and rounded once.
    gradient.sum_dim_intlist(0, true, gradient.kind())
}

/// `[batch, heads, length, width]` to `[batch, length, heads, width]`, detached.
fn by_position(heads: &Tensor) -> Tensor {
    heads.detach().transpose(1, 2)
}

fn with_bias(in_heads: [&Tensor; 3], bias: &AttentionBias) -> Operands {
    let [query, key, value] = in_heads.map(by_position);
    let (batch, queries, heads, _) = query.size4().expect("queries have four axes");
    let expanded = bias.aligned(query.kind()).expand([batch, heads, queries, key.size()[1]], false);
    let bias_needs = bias.position.as_ref().is_some_and(Tensor::requires_grad);
    let (starts, longest) = ([(); 2].map(|()| Tensor::new()), [0; 2]);
    Operands { query, key, value, bias: expanded, bias_needs, starts, longest }
}

fn with_runs(in_heads: [&Tensor; 3], bias: &AttentionBias) -> Operands {
    let runs = bias.runs.as_ref().expect("chosen where runs are known");
    let Some(starts) = runs.starts() else {
        let [query, key, value] = in_heads.map(by_position);
        let (starts, longest) = ([(); 2].map(|()| Tensor::new()), runs.longest());
        return Operands {
            query,
            key,
            value,
            bias: Tensor::new(),
            bias_needs: false,
            starts,
            longest,
        };
    };
    // One row after the other: [batch * length, heads, width].
    let [query, key, value] = in_heads.map(|tensor| by_position(tensor).flatten(0, 1));
    let (starts, longest) = (starts.each_ref().map(Tensor::shallow_clone), runs.longest());
    Operands { query, key, value, bias: Tensor::new(), bias_needs: false, starts, longest }
}

impl Operands {
    fn raw(&self) -> RawOperands {
        RawOperands {
            query: raw(&self.query),
            key: raw(&self.key),
            value: raw(&self.value),
            bias: raw(&self.bias),
            query_starts: raw(&self.starts[0]),
            key_starts: raw(&self.starts[1]),
            longest_query_run: self.longest[0],
            longest_key_run: self.longest[1],
        }
    }
}

impl Kept {
    fn by(
        operands: &Operands,
        forward: unsafe extern "C" fn(*const RawOperands, *const RawKept) -> *mut c_char,
    ) -> Self {
        let [out, normalizers, random_seed, random_offset] = [(); 4].map(|()| Tensor::new());
        let kept = Self { out, normalizers, random_seed, random_offset };
        // SAFETY: all tensors outlive the call, which sets those that are kept.
        check(unsafe { forward(&operands.raw(), &kept.raw()) });
        kept
    }

    fn raw(&self) -> RawKept {
        RawKept {
            out: raw(&self.out),
            normalizers: raw(&self.normalizers),
            random_seed: raw(&self.random_seed),
            random_offset: raw(&self.random_offset),
        }
    }
}

fn raw_gradients(found: &[Tensor; 4]) -> RawGradients {
    let [query, key, value, bias] = found.each_ref().map(raw);
    RawGradients { query, key, value, bias }
}

#[cfg(test)]
mod stand_in;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nn::autograd::panic_message;
    use crate::nn::{Runs, causal_mask, pairs, same_segment};
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use tch::{Device, Kind};

    struct Case {
        kernel: &'static Kernel,
        kind: Kind,
        position: bool,
        /// Segment ids of queries and of keys, [batch, length].
        ids: [Tensor; 2],
        causal: bool,
    }

    fn ids<const N: usize>(rows: &[[i64; N]]) -> Tensor {
        Tensor::from_slice2(rows)
    }

    /// The result for queries that are not padding, and the gradients of all that is read.
    fn run(case: &Case, attend: impl Fn([&Tensor; 3], &AttentionBias) -> Tensor) -> Vec<Tensor> {
        tch::manual_seed(1);
        let [query_ids, key_ids] = &case.ids;
        let (batch, heads, width) = (query_ids.size()[0], 3, 8);
        let leaf = |size: &[i64]| {
            let values = Tensor::randn(size, (Kind::Float, Device::Cpu)).to_kind(case.kind);
            values.set_requires_grad(true)
        };
        let (queries, keys) = (query_ids.size()[1], key_ids.size()[1]);
        // As projections leave them: heads side by side.
        let joined = [queries, keys, keys].map(|length| leaf(&[batch, length, heads * width]));
        let position = leaf(&[1, heads, queries, keys]);
        let [query, key, value] =
            joined.each_ref().map(|joined| joined.view([batch, -1, heads, width]).transpose(1, 2));
        let (real_query, real_key) = (query_ids.gt(0), key_ids.gt(0));
        let mut allowed =
            pairs(&real_query, &real_key).logical_and(&same_segment(query_ids, key_ids));
        if case.causal {
            allowed = allowed.logical_and(&causal_mask(queries, Device::Cpu));
        }
        let learned = case.position.then(|| position.shallow_clone());
        let bias = AttentionBias::new(learned, &allowed).over(Runs::between(
            query_ids,
            key_ids,
            Device::Cpu,
        ));
        let out =
            attend([&query, &key, &value], &bias) * real_query.unsqueeze(-1).to_kind(case.kind);
        let weights = Tensor::randn(out.size(), (Kind::Float, Device::Cpu));
        (out.to_kind(Kind::Float) * weights).sum(Kind::Float).backward();
        let mut found = vec![out.detach()];
        found.extend(joined.iter().map(Tensor::grad));
        found.extend(case.position.then(|| position.grad()));
        found
    }

    fn written_out([query, key, value]: [&Tensor; 3], bias: &AttentionBias) -> Tensor {
        let [wide_query, wide_key] = [query, key].map(|tensor| tensor.to_kind(Kind::Float));
        let scores = wide_query.matmul(&wide_key.transpose(-2, -1)) + bias.dense(Kind::Float);
        let heads = scores.softmax(-1, Kind::Float).matmul(&value.to_kind(Kind::Float));
        heads.to_kind(query.kind()).transpose(1, 2).flatten(2, 3)
    }

    fn check(case: &Case, bound: f64) {
        let _held = crate::nn::GENERATOR.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let found = run(case, |heads, bias| attention(case.kernel, heads, bias));
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
            let case =
                Case { kernel: &stand_in::EFFICIENT, kind, position: true, ids, causal: true };
            check(&case, bound);
        }
    }

    #[test]
    fn with_a_learned_bias_padding_and_packed_examples() {
        let ids = ids(&[[1, 1, 1, 2, 2, 0], [1, 1, 0, 0, 0, 0], [1, 2, 3, 3, 4, 4]]);
        let ids = [ids.shallow_clone(), ids];
        let (kernel, kind) = (&stand_in::EFFICIENT, Kind::Float);
        check(&Case { kernel, kind, position: true, ids, causal: false }, 1e-5);
    }

    #[test]
    fn between_padded_and_packed_sequences_without_a_bias() {
        let queries = ids(&[[1, 1, 1, 2, 0], [1, 1, 0, 0, 0], [1, 1, 1, 1, 1]]);
        let keys = ids(&[[1, 2, 2, 0, 0, 0, 0], [1, 1, 1, 1, 1, 1, 0], [1, 1, 1, 1, 1, 1, 1]]);
        for kernel in [&stand_in::EFFICIENT, &stand_in::FLASH] {
            let ids = [queries.shallow_clone(), keys.shallow_clone()];
            let case = Case { kernel, kind: Kind::Float, position: false, ids, causal: false };
            check(&case, 1e-5);
        }
    }

    #[test]
    fn between_full_sequences_without_a_bias() {
        for kernel in [&stand_in::EFFICIENT, &stand_in::FLASH] {
            let ids = [ids(&[[1; 5], [1; 5]]), ids(&[[1; 7], [1; 7]])];
            let case = Case { kernel, kind: Kind::Float, position: false, ids, causal: false };
            check(&case, 1e-5);
        }
    }

    /// What libtorch says to the call: which operation has no kernel for CPUs.
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
}
