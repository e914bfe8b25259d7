//! Attention as one operation, whose scores are never completely in memory. The implementations:
//!
//! | device | bias | dtype | implementation |
//! | --- | --- | --- | --- |
//! | CPU | any | float32, bfloat16 | `bridge/attention.cpp`, block by block |
//! | CPU | any | float16 | none: plain operations |
//! | CUDA from the H100 on | any, and the host knows the starts of examples | bfloat16, float16 | cuDNN's kernel, over runs or all keys |
//! | CUDA | no learned one, and the host knows the starts of examples | bfloat16, float16 | libtorch's flash kernel, over runs of keys or all keys |
//! | CUDA | any other | any | libtorch's memory-efficient kernel, with the mask as a bias |
//! | CUDA, `float32_attention_logits` | any | bfloat16, float16 | none: plain operations, with a notice to the user |
//! | CUDA before the A100, heads of an odd width | any | any | none, as above |
//!
//! A kernel that failed its trial at the start (`session::kernel_trials`), or that cuDNN does not have for a shape, gives way to
//! the next line.
//!
//! Flash takes no bias and the memory-efficient kernel takes runs or a bias, not both: a learned bias of packed rows is
//! expanded to every row there, and so is its gradient. cuDNN's kernel takes both and sums the gradient over the batch.
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
use crate::nn::{AttentionDims, Heads, Runs};
use crate::telemetry::warn_once;

/// The widest heads for kernels over runs, below their own limits: enough for every T5.
const WIDEST_HEAD_OVER_RUNS: i64 = 128;

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
        generation: kernels::generation(query.device()),
        kind: query.kind(),
        kernels: kernels::fit(&query, i64::MAX),
        learned_bias: bias.position.is_some(),
        runs: bias.runs.as_ref().map(Runs::are_causal),
    };
    match case.way(dims) {
        Way::Blocks => Some(cpu::attention(heads, factors, bias)),
        Way::First(kernels) => {
            let trusted = kernels.iter().filter(|(kernel, _)| kernel.is_trusted());
            // The user was notified of the others at the start.
            let mut attended =
                trusted.filter_map(|(_, calls)| device::attention(calls, heads, factors, bias));
            attended.next()
        }
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
    generation: i64,
    kind: Kind,
    /// Whether kernels are compiled for the device and heads of that width.
    kernels: bool,
    learned_bias: bool,
    /// Whether runs are causal, if the host knows them.
    runs: Option<bool>,
}

/// A kernel of CUDA's with its calls.
type DeviceKernel = (Kernel, &'static device::Kernel);

enum Way {
    Blocks,
    /// The first one that is trusted and has the shape.
    First(Vec<DeviceKernel>),
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
        let over_runs = narrow && self.runs.is_some() && dims.head_dim <= WIDEST_HEAD_OVER_RUNS;
        let kernels: [(bool, DeviceKernel); 3] = [
            (over_runs && self.generation >= 9, (Kernel::CudnnAttention, &device::CUDNN)),
            (
                over_runs && !self.learned_bias && self.runs == Some(false),
                (Kernel::FlashAttention, &device::FLASH),
            ),
            (true, (Kernel::EfficientAttention, &device::EFFICIENT)),
        ];
        Way::First(
            kernels.into_iter().filter(|(suits, _)| *suits).map(|(_, kernel)| kernel).collect(),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks the kernels of a case on a device, or the reason why there is none.
    fn check(change: impl Fn(&mut Case, &mut AttentionDims), expected: &str) {
        let mut case = Case {
            device: Device::Cuda(0),
            generation: 8,
            kind: Kind::BFloat16,
            kernels: true,
            learned_bias: false,
            runs: Some(false),
        };
        let mut dims = AttentionDims { num_heads: 6, head_dim: 64, float32_logits: false };
        change(&mut case, &mut dims);
        let found = match case.way(&dims) {
            Way::Blocks => "blocks".to_owned(),
            Way::First(kernels) => {
                let names = kernels.iter().map(|(kernel, _)| format!("{kernel:?}"));
                names.collect::<Vec<_>>().join(" ").replace("Attention", "")
            }
            Way::WrittenOut(reason) => reason.to_owned(),
        };
        assert!(found.starts_with(expected), "{found} is not {expected}");
    }

    #[test]
    fn every_case_has_the_way_of_the_table() {
        check(|_, _| {}, "Flash Efficient");
        check(|case, _| case.generation = 9, "Cudnn Flash Efficient");
        check(|case, _| (case.generation, case.learned_bias) = (9, true), "Cudnn Efficient");
        check(|case, _| (case.generation, case.runs) = (9, Some(true)), "Cudnn Efficient");
        check(|case, _| (case.generation, case.runs) = (9, None), "Efficient");
        check(|case, _| case.runs = Some(true), "Efficient");
        check(|case, _| case.kind = Kind::Half, "Flash");
        check(|case, _| case.device = Device::Cpu, "blocks");
        let half_on_cpu = |case: &mut Case, _: &mut AttentionDims| {
            (case.kind, case.device) = (Kind::Half, Device::Cpu);
        };
        check(half_on_cpu, "CPUs have");
        check(|case, _| case.learned_bias = true, "Efficient");
        check(|case, _| case.kind = Kind::Float, "Efficient");
        check(|_, dims| dims.head_dim = 256, "Efficient");
        check(|_, dims| dims.float32_logits = true, "`float32");
        check(|case, _| case.kernels = false, "the kernels");
        let float = |case: &mut Case, dims: &mut AttentionDims| {
            (case.kind, dims.float32_logits) = (Kind::Float, true);
        };
        check(float, "Efficient");
    }
}
