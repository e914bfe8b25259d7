//! Attention on CUDA devices, by libtorch's kernels: the Rust side of
//! `bridge/device_attention.cpp`.

use std::ffi::c_char;

use tch::Tensor;

use crate::nn::Heads;
use crate::nn::autograd::{RawTensor, check, custom_function, raw};
use crate::nn::masks::AttentionBias;
use crate::nn::profiler::{Activity, part};

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
    gradients_joined: bool,
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

/// The inputs of a kernel, detached.
struct Operands {
    query: Tensor, // [batch, length, heads, width], or [batch * length, heads, width] with runs
    key: Tensor,
    value: Tensor,
    /// `[batch, heads, queries, keys]`, or undefined.
    bias: Tensor,
    /// Whether the bias' gradient is requested.
    bias_needs: bool,
    /// Whether gradients of queries, keys and values should lie side by side for each position.
    gradients_joined: bool,
    /// Undefined without runs.
    starts: [Tensor; 2],
    /// Queries and keys of the longest run.
    longest: [i64; 2],
}

/// The results of a forward pass: its output, of the queries' shape, and the inputs of the backward
/// pass.
struct Kept {
    out: Tensor,
    normalizers: Tensor,
    random_seed: Tensor,
    random_offset: Tensor,
}

/// A kernel: its preparation and its calls, forward and backward. Tests replace it by plain operations.
pub(super) struct Kernel {
    operands: fn([&Tensor; 3], &AttentionBias) -> Operands,
    forward: fn(&Operands) -> Kept,
    /// Gradients of query, key, value and bias, the last undefined unless requested.
    backward: fn(&Operands, &Kept, &Tensor) -> [Tensor; 4],
}

/// The kernel with a bias, and the gradient of a learned one.
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

/// The kernel without a bias, over runs or everything.
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
    heads: &Heads,
    factors: Option<&Tensor>,
    bias: &AttentionBias,
) -> Tensor {
    let _part = part(Activity::Attention);
    let projected = heads.detach();
    let [query, key, value] = projected.split();
    let value = factors.map_or_else(|| value.shallow_clone(), |factors| &value * factors);
    let (batch, _, length, _) = query.size4().expect("queries have four axes");
    let position = bias.position.as_ref().map_or_else(Tensor::new, Tensor::shallow_clone);
    let operands = tch::no_grad(|| Operands {
        gradients_joined: projected.joined.wholes().len() == 1,
        ..(kernel.operands)([&query, &key, &value], bias)
    });
    let kept = tch::no_grad(|| (kernel.forward)(&operands));
    let out = kept.out.shallow_clone();
    // The kept result must be detached from the graph.
    let kept = Kept { out: kept.out.detach(), ..kept };
    let factors = factors.map(|factors| factors.transpose(1, 2)); // [batch, length, heads, 1]
    let backward = move |gradients: Vec<Tensor>| {
        let _part = part(Activity::Attention);
        let [query, key, value, bias] = (kernel.backward)(&operands, &kept, &gradients[0]);
        let by_row = |gradient: &Tensor| {
            let size = gradient.size();
            gradient.reshape([batch, -1, size[size.len() - 2], size[size.len() - 1]])
        };
        if let Some(factors) = &factors {
            let _ = by_row(&value).g_mul_(factors);
        }
        let parts = [query, key, value].map(|gradient| by_row(&gradient).flatten(2, 3));
        let mut found = projected.joined.laid_out(&parts).into_wholes();
        found.push(if bias.defined() { sum_over_batch(&bias) } else { bias });
        found
    };
    let mut read: Vec<&Tensor> = heads.joined.wholes().iter().collect();
    read.push(&position);
    let out = custom_function(&read, vec![out], backward).remove(0);
    out.reshape([batch, length, -1])
}

/// The gradient of a bias that all rows of the batch share, `[1, heads, queries, keys]`, from theirs.
fn sum_over_batch(gradient: &Tensor) -> Tensor {
    // Added up in float32 for any dtype, and rounded once.
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
    Operands {
        query,
        key,
        value,
        bias: expanded,
        bias_needs,
        gradients_joined: false,
        starts,
        longest,
    }
}

fn with_runs(in_heads: [&Tensor; 3], bias: &AttentionBias) -> Operands {
    let runs = bias.runs.as_ref().expect("chosen where runs are known");
    let (in_rows, starts) = match runs.starts() {
        None => (in_heads.map(by_position), [(); 2].map(|()| Tensor::new())),
        // One row after the other: [batch * length, heads, width].
        Some(starts) => (
            in_heads.map(|tensor| by_position(tensor).flatten(0, 1)),
            starts.each_ref().map(Tensor::shallow_clone),
        ),
    };
    let ([query, key, value], longest) = (in_rows, runs.longest());
    Operands {
        query,
        key,
        value,
        bias: Tensor::new(),
        bias_needs: false,
        gradients_joined: false,
        starts,
        longest,
    }
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
            gradients_joined: self.gradients_joined,
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
        // SAFETY: all tensors outlive the call, which sets the kept ones.
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
mod tests;
