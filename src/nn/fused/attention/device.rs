//! Attention on CUDA devices, by kernels of libtorch and cuDNN: the Rust side of
//! `bridge/device_attention.cpp` and `bridge/cudnn_attention.cpp`.

use std::ffi::c_char;

use tch::Tensor;

use crate::nn::autograd::{RawTensor, check, custom_function, raw, taken};
use crate::nn::masks::AttentionBias;
use crate::nn::profiler::{Activity, part};
use crate::nn::{Heads, Runs};
use crate::telemetry::warn_once;

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
    lengths: [RawTensor; 2],
    offsets: [RawTensor; 5],
    is_causal: bool,
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
    fn gimlet_cudnn_attention_refusal(
        operands: *const RawOperands,
        with_backward: bool,
        bias_needs: bool,
    ) -> *mut c_char;
    fn gimlet_cudnn_attention(
        operands: *const RawOperands,
        with_backward: bool,
        kept: *const RawKept,
    ) -> *mut c_char;
    fn gimlet_cudnn_attention_backward(
        operands: *const RawOperands,
        kept: *const RawKept,
        out_gradient: RawTensor,
        bias_needs: bool,
        gradients: *const RawGradients,
    ) -> *mut c_char;
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
    /// `[1 or batch, heads, queries, keys]`, or undefined.
    bias: Tensor,
    /// Whether the bias' gradient is requested.
    bias_needs: bool,
    /// Whether there will be a backward pass.
    with_backward: bool,
    /// Whether gradients of queries, keys and values should lie side by side for each position.
    gradients_joined: bool,
    /// The runs, for kernels over runs.
    runs: Option<Runs>,
    /// The starts of runs in numbers from the first one of queries, keys, values, results of the queries' shape, and results of
    /// the keys' shape; undefined without parts of rows.
    offsets: [Tensor; 5],
    /// The tensor in the places of absent ones.
    undefined: Tensor,
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
    /// Says why there is no such kernel, if there is none.
    refusal: fn(&Operands) -> Option<String>,
    forward: fn(&Operands) -> Kept,
    /// Gradients of query, key, value and bias, the last undefined unless requested.
    backward: fn(&Operands, &Kept, &Tensor) -> [Tensor; 4],
}

/// cuDNN's kernel over runs or everything, with a bias that rows share, and the gradient of a learned one.
pub(super) static CUDNN: Kernel = Kernel {
    operands: with_runs_and_bias,
    refusal: |operands| {
        if operands.largest_offset() > i64::from(i32::MAX) {
            return Some("packed or padded rows of more than 2^31 numbers".to_owned());
        }
        // SAFETY: all tensors outlive the call.
        let message = unsafe {
            gimlet_cudnn_attention_refusal(
                &operands.raw(),
                operands.with_backward,
                operands.bias_needs,
            )
        };
        (!message.is_null()).then(|| taken(message))
    },
    forward: |operands| {
        let kept = Kept::empty();
        // SAFETY: all tensors outlive the call, which sets the kept ones.
        check(unsafe {
            gimlet_cudnn_attention(&operands.raw(), operands.with_backward, &kept.raw())
        });
        kept
    },
    backward: |operands, kept, out_gradient| {
        let (out_gradient, needs) = (out_gradient.contiguous(), operands.bias_needs);
        // SAFETY: `gradients_by` keeps the others, and the gradient outlives the call.
        gradients_by(operands, kept, |operands, kept, gradients| unsafe {
            let of_out = raw(&out_gradient);
            gimlet_cudnn_attention_backward(operands, kept, of_out, needs, gradients)
        })
    },
};

/// libtorch's kernel with a bias, and the gradient of a learned one.
pub(super) static EFFICIENT: Kernel = Kernel {
    operands: with_bias,
    refusal: |_| None,
    forward: |operands| Kept::by(operands, gimlet_efficient_attention),
    backward: |operands, kept, out_gradient| {
        let (of_out, needs) = (raw(out_gradient), operands.bias_needs);
        // SAFETY: as above.
        gradients_by(operands, kept, |operands, kept, gradients| unsafe {
            gimlet_efficient_attention_backward(operands, kept, of_out, needs, gradients)
        })
    },
};

/// libtorch's kernel without a bias, over runs or everything.
pub(super) static FLASH: Kernel = Kernel {
    operands: with_runs,
    refusal: |_| None,
    forward: |operands| Kept::by(operands, gimlet_flash_attention),
    backward: |operands, kept, out_gradient| {
        let of_out = raw(out_gradient);
        // SAFETY: as above.
        gradients_by(operands, kept, |operands, kept, gradients| unsafe {
            gimlet_flash_attention_backward(operands, kept, of_out, gradients)
        })
    },
};

/// See [`super::fused_attention`]. `None` if the kernel is not there for this shape, of which the user is notified once.
pub(super) fn attention(
    kernel: &'static Kernel,
    heads: &Heads,
    factors: Option<&Tensor>,
    bias: &AttentionBias,
) -> Option<Tensor> {
    let _part = part(Activity::Attention);
    let projected = heads.detach();
    let [query, key, value] = projected.split();
    let value = factors.map_or_else(|| value.shallow_clone(), |factors| &value * factors);
    let (batch, _, length, _) = query.size4().expect("queries have four axes");
    let position = bias.position.as_ref().map_or_else(Tensor::new, Tensor::shallow_clone);
    let wholes = heads.joined.wholes();
    let operands = tch::no_grad(|| Operands {
        gradients_joined: wholes.len() == 1,
        with_backward: wholes.iter().chain([&position]).any(Tensor::requires_grad),
        ..(kernel.operands)([&query, &key, &value], bias)
    });
    if let Some(reason) = (kernel.refusal)(&operands) {
        warn_once(&format!("cuDNN does not compute an attention, and libtorch does: {reason}"));
        return None;
    }
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
        found.push(if bias.defined() { sum_over_batch(bias) } else { bias });
        found
    };
    let mut read: Vec<&Tensor> = wholes.iter().collect();
    read.push(&position);
    let out = custom_function(&read, vec![out], backward).remove(0);
    Some(out.reshape([batch, length, -1]))
}

/// The gradient of a bias that all rows of the batch share, `[1, heads, queries, keys]`, from theirs.
fn sum_over_batch(gradient: Tensor) -> Tensor {
    if gradient.size()[0] == 1 {
        return gradient;
    }
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
    let size = [batch, heads, queries, key.size()[1]];
    let expanded = bias.aligned(query.kind()).expand(size, false);
    let bias_needs = bias.position.as_ref().is_some_and(Tensor::requires_grad);
    Operands { bias: expanded, bias_needs, ..Operands::of([query, key, value], None) }
}

fn with_runs(in_heads: [&Tensor; 3], bias: &AttentionBias) -> Operands {
    let runs = bias.runs.as_ref().expect("chosen where runs are known");
    let in_rows = match runs.are_whole_rows() {
        true => in_heads.map(by_position),
        // One row after the other: [batch * length, heads, width].
        false => in_heads.map(|tensor| by_position(tensor).flatten(0, 1)),
    };
    Operands::of(in_rows, Some(runs.clone()))
}

fn with_runs_and_bias(in_heads: [&Tensor; 3], bias: &AttentionBias) -> Operands {
    let operands = with_runs(in_heads, bias);
    let kind = operands.query.kind();
    let position = bias.position.as_ref();
    Operands {
        bias: position.map_or_else(Tensor::new, |bias| bias.detach().to_kind(kind).contiguous()),
        bias_needs: position.is_some_and(Tensor::requires_grad),
        offsets: operands.offsets(),
        ..operands
    }
}

impl Operands {
    /// Inputs that lie as the kernel reads them, without a bias.
    fn of([query, key, value]: [Tensor; 3], runs: Option<Runs>) -> Self {
        Self {
            query,
            key,
            value,
            bias: Tensor::new(),
            bias_needs: false,
            with_backward: false,
            gradients_joined: false,
            runs,
            offsets: [(); 5].map(|()| Tensor::new()),
            undefined: Tensor::new(),
        }
    }

    /// The starts of runs in numbers, for tensors that lie like these.
    fn offsets(&self) -> [Tensor; 5] {
        let dense = self.dense_position();
        let [query, key, value] =
            [&self.query, &self.key, &self.value].map(|part| part.stride()[0]);
        [(0, query), (1, key), (1, value), (0, dense), (1, dense)].map(|(side, factor)| {
            let runs = self.runs.as_ref();
            runs.and_then(|runs| runs.multiplied_starts(side, factor)).unwrap_or_default()
        })
    }

    /// Numbers of a position in a tensor of heads alone.
    fn dense_position(&self) -> i64 {
        self.query.size().iter().rev().take(2).product()
    }

    /// The start of what would follow the last run, in the widest layout of its tensors; 0 without parts of rows.
    fn largest_offset(&self) -> i64 {
        if self.runs.as_ref().is_none_or(Runs::are_whole_rows) {
            return 0;
        }
        let parts = [&self.query, &self.key, &self.value];
        let widest = parts.iter().map(|part| part.stride()[0]).max().expect("there are parts");
        let positions = parts.iter().map(|part| part.size()[0]).max().expect("there are parts");
        widest.max(3 * self.dense_position()) * positions
    }

    fn raw(&self) -> RawOperands {
        let of_runs = |found: Option<&[Tensor; 2]>| match found {
            Some(found) => found.each_ref().map(raw),
            None => [raw(&self.undefined); 2],
        };
        let runs = self.runs.as_ref();
        let [query_starts, key_starts] = of_runs(runs.and_then(Runs::starts));
        let longest = runs.map_or([0; 2], Runs::longest);
        RawOperands {
            query: raw(&self.query),
            key: raw(&self.key),
            value: raw(&self.value),
            bias: raw(&self.bias),
            query_starts,
            key_starts,
            longest_query_run: longest[0],
            longest_key_run: longest[1],
            lengths: of_runs(runs.and_then(Runs::run_lengths)),
            offsets: self.offsets.each_ref().map(raw),
            is_causal: runs.is_some_and(Runs::are_causal),
            gradients_joined: self.gradients_joined,
        }
    }
}

impl Kept {
    fn by(
        operands: &Operands,
        forward: unsafe extern "C" fn(*const RawOperands, *const RawKept) -> *mut c_char,
    ) -> Self {
        let kept = Self::empty();
        // SAFETY: all tensors outlive the call, which sets the kept ones.
        check(unsafe { forward(&operands.raw(), &kept.raw()) });
        kept
    }

    fn empty() -> Self {
        let [out, normalizers, random_seed, random_offset] = [(); 4].map(|()| Tensor::new());
        Self { out, normalizers, random_seed, random_offset }
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

/// Returns the gradients of query, key, value and bias that `call` sets.
fn gradients_by(
    operands: &Operands,
    kept: &Kept,
    call: impl FnOnce(&RawOperands, &RawKept, &RawGradients) -> *mut c_char,
) -> [Tensor; 4] {
    let found = [(); 4].map(|()| Tensor::new());
    let [query, key, value, bias] = found.each_ref().map(raw);
    check(call(&operands.raw(), &kept.raw(), &RawGradients { query, key, value, bias }));
    found
}

#[cfg(test)]
mod stand_in;

#[cfg(test)]
mod tests;
