//! Attention as one operation, whose scores are never completely in memory. The implementations:
//!
//! | device | bias | dtype | implementation |
//! | --- | --- | --- | --- |
//! | CPU | any | float32, bfloat16 | `bridge/attention.cpp`, block by block |
//! | CPU | any | float16 | none: plain operations |
//! | CUDA | no learned one, and the host knows the starts of examples | bfloat16, float16 | libtorch's flash kernel, over runs of keys or all keys |
//! | CUDA | any other | any | libtorch's memory-efficient kernel, with the mask as a bias |
//! | CUDA, `float32_attention_logits` | any | bfloat16, float16 | none: plain operations, with a notice to the user |
//! | CUDA before the A100, heads of an odd width | any | any | none, as above |
//!
//! A kernel that failed its trial at the start (`session::kernel_trials`) gives way to the next line.
//!
//! Flash takes no bias, so a learned one, which needs a gradient too, uses the memory-efficient
//! kernel, even for packed rows: that kernel takes runs or a bias, not both. On Hopper cuDNN's
//! graph API would sum the bias' gradient over the batch itself; its C++ frontend is not part of
//! libtorch and is not used.
//!
//! No kernel drops weights: T5X shares that mask among queries, so it is a factor of the values,
//! which the caller draws ([`crate::nn::Dropout::mask_of_keys`]), and a recomputed layer draws it
//! again.
//!
//! On CUDA a query without any allowed key attends to all keys or to others, while T5X gives the
//! mean of all values. Such queries are padding, and their results are not read.

mod cpu;
mod device;

use tch::{Device, Kind, Tensor};

use super::kernels::{self, Kernel};
use crate::nn::masks::AttentionBias;
use crate::nn::{AttentionDims, Heads};
use crate::telemetry::warn_once;

/// The widest heads for flash, below its own limit: enough for every T5.
const WIDEST_FLASH_HEAD: i64 = 128;

/// Returns the values, times `factors` `[batch, num_heads, kv_length, 1]` if there are any,
/// averaged for each query with the softmax of its scores plus the bias:
/// `[batch, q_length, num_heads * head_dim]`, in the queries' dtype. Scores and the softmax are
/// float32. `None` if no kernel can do it, of which the user is notified once.
pub fn fused_attention(
    heads: &Heads,
    factors: Option<&Tensor>,
    bias: &AttentionBias,
    dims: &AttentionDims,
) -> Option<Tensor> {
    let [query, ..] = heads.detach().split();
    let case = Case {
        device: query.device(),
        kind: query.kind(),
        kernels: kernels::fit(&query, i64::MAX),
        learned_bias: bias.position.is_some(),
        runs_known: bias.runs.is_some(),
    };
    match case.way(dims) {
        Way::Blocks => Some(cpu::attention(heads, factors, bias)),
        Way::Flash if Kernel::FlashAttention.is_trusted() => {
            Some(device::attention(&device::FLASH, heads, factors, bias))
        }
        Way::Flash | Way::Efficient if Kernel::EfficientAttention.is_trusted() => {
            Some(device::attention(&device::EFFICIENT, heads, factors, bias))
        }
        // The user was notified at the start.
        Way::Flash | Way::Efficient => None,
        Way::WrittenOut(reason) => {
            warn_once(&format!("attention is computed the slow way, score by score: {reason}"));
            None
        }
    }
}

/// The conditions of the choice.
#[derive(Clone, Copy)]
struct Case {
    device: Device,
    kind: Kind,
    /// Whether kernels are compiled for the device and heads of that width.
    kernels: bool,
    learned_bias: bool,
    runs_known: bool,
}

#[derive(Debug, PartialEq)]
enum Way {
    Blocks,
    Flash,
    Efficient,
    WrittenOut(&'static str),
}

impl Case {
    fn way(self, dims: &AttentionDims) -> Way {
        if self.device == Device::Cpu {
            return match self.kind {
                Kind::Half => Way::WrittenOut("CPUs have no kernel for float16"),
                _ => Way::Blocks,
            };
        }
        if !self.kernels {
            return Way::WrittenOut(
                "the kernels are for A100s and newer, and heads whose width is a multiple of 8",
            );
        }
        let narrow = self.kind != Kind::Float;
        if narrow && dims.float32_logits {
            return Way::WrittenOut("`float32_attention_logits` requires scores in float32");
        }
        if narrow && !self.learned_bias && self.runs_known && dims.head_dim <= WIDEST_FLASH_HEAD {
            return Way::Flash;
        }
        Way::Efficient
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(change: impl Fn(&mut Case, &mut AttentionDims), expected: &str) {
        let mut case = Case {
            device: Device::Cuda(0),
            kind: Kind::BFloat16,
            kernels: true,
            learned_bias: false,
            runs_known: true,
        };
        let mut dims = AttentionDims { num_heads: 6, head_dim: 64, float32_logits: false };
        change(&mut case, &mut dims);
        let found = format!("{:?}", case.way(&dims));
        assert!(found.starts_with(expected), "{found} is not {expected}");
    }

    #[test]
    fn every_case_has_the_way_of_the_table() {
        check(|_, _| {}, "Flash");
        check(|case, _| case.kind = Kind::Half, "Flash");
        check(|case, _| case.device = Device::Cpu, "Blocks");
        let half_on_cpu = |case: &mut Case, _: &mut AttentionDims| {
            (case.kind, case.device) = (Kind::Half, Device::Cpu);
        };
        check(half_on_cpu, "WrittenOut(\"CPUs have");
        check(|case, _| case.learned_bias = true, "Efficient");
        check(|case, _| case.runs_known = false, "Efficient");
        check(|case, _| case.kind = Kind::Float, "Efficient");
        check(|_, dims| dims.head_dim = 256, "Efficient");
        check(|_, dims| dims.float32_logits = true, "WrittenOut(\"`float32");
        check(|case, _| case.kernels = false, "WrittenOut(\"the kernels");
        let float = |case: &mut Case, dims: &mut AttentionDims| {
            (case.kind, dims.float32_logits) = (Kind::Float, true);
        };
        check(float, "Efficient");
    }
}
