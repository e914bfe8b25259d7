//! A trial of each kernel for CUDA on small inputs, at the start of a command, until a program has passed on a device: a
//! kernel that fails, or does not agree with libtorch's plain operations, is not used, and the run goes on with these. A kernel that breaks the device
//! itself, so that nothing runs on it any more, ends the command with libtorch's message.

use tch::{Device, Kind, Tensor};

use crate::models::heads::{Head, LossSpec, Targets, Vocabulary, cross_entropy};
use crate::nn::bridge::cuda_devices;
use crate::nn::fused::gated_gelu;
use crate::nn::fused::kernels::Kernel;
use crate::nn::{
    AttentionBias, AttentionDims, Dropout, Fp8Format, Heads, Joined, Params, Projection,
    Projections, RelativePosition, RmsNorm, Runs, TransformerEngineConfig, add_and_norm, attention,
    causal_mask, pairs, relative_position_bias, same_segment,
};
use crate::optim::{Adafactor, Gradient, Incoming, Optimizer, OptimizerDef, ParamShape, Watch};
use crate::telemetry;

use super::guard::guarded;
use super::passed_trials::PassedTrials;

/// The largest difference relative to the result: a few roundings of bfloat16. A wrong kernel is far off.
const TOLERANCE: f64 = 0.05;

/// Tries all kernels on a CUDA device, unless they have all passed on such a device before.
pub fn try_kernels(device: Device) {
    let Device::Cuda(index) = device else { return };
    let passed = cuda_devices().get(index).and_then(|device| PassedTrials::on(&device.name));
    if passed.as_ref().is_some_and(PassedTrials::are_known) {
        return;
    }
    try_all(device);
    if let Some(passed) = passed.filter(|_| Kernel::are_all_trusted()) {
        passed.remember();
    }
}

fn try_all(device: Device) {
    for kind in [Kind::Float, Kind::BFloat16] {
        let inputs = Inputs { kind, device };
        try_one(Kernel::Norm, || inputs.norm());
        try_one(Kernel::GatedGelu, || inputs.gated_gelu());
        try_one(Kernel::RelativePosition, || inputs.relative_position());
        try_products(Kernel::Fp8Product, Kernel::Fp8Cast, || inputs.fp8_product());
        try_products(Kernel::HeadProduct, Kernel::CrossEntropy, || inputs.cross_entropy());
    }
    for kind in [Kind::BFloat16, Kind::Half] {
        try_attention(&Inputs { kind, device });
    }
    let wide = Inputs { kind: Kind::Float, device };
    try_one(Kernel::EfficientAttention, || wide.attention(true, false));
    try_one(Kernel::Adafactor, || wide.adafactor());
    try_one(Kernel::Adafactor, || wide.adafactor_of_copies());
}

/// Tries products first, with the work of the kernel beside them by plain operations: a device may have no such products.
fn try_products(products: Kernel, beside: Kernel, results: impl Fn() -> Vec<Tensor>) {
    let is_trusted = beside.is_trusted();
    beside.trust(false);
    try_one(products, &results);
    beside.trust(is_trusted);
    try_one(beside, results);
}

/// Tries the kernels that take the place of others last, against these.
fn try_attention(inputs: &Inputs) {
    let cudnn = Kernel::CudnnAttention.is_trusted();
    Kernel::CudnnAttention.trust(false);
    try_one(Kernel::EfficientAttention, || inputs.attention(true, false));
    try_one(Kernel::FlashAttention, || inputs.attention(false, false));
    Kernel::CudnnAttention.trust(cudnn);
    for (learned_bias, causal) in [(true, false), (true, true), (false, false)] {
        try_one(Kernel::CudnnAttention, || inputs.attention(learned_bias, causal));
    }
}

/// Compares the results with the kernel and without it, unless it has failed before.
fn try_one(kernel: Kernel, results: impl Fn() -> Vec<Tensor>) {
    if !kernel.is_trusted() {
        return;
    }
    kernel.trust(false);
    let expected = results();
    kernel.trust(true);
    let fault = match guarded(&results) {
        Ok(found) => difference(&found, &expected),
        Err(failure) => Some(format!("{failure:?}")),
    };
    if let Some(fault) = fault {
        kernel.trust(false);
        telemetry::warn(&format!(
            "the CUDA kernel {kernel:?} failed its trial and is not used, which costs speed: {fault}"
        ));
    }
}

/// Describes the first result that is too far from what was expected.
fn difference(found: &[Tensor], expected: &[Tensor]) -> Option<String> {
    let error = |(found, expected): (&Tensor, &Tensor)| {
        let wide = expected.to_kind(Kind::Double);
        let distance = (found.to_kind(Kind::Double) - &wide).norm();
        (distance / wide.norm().clamp_min(1e-30)).double_value(&[])
    };
    let is_wrong = |error: &f64| error.is_nan() || *error > TOLERANCE;
    let wrong = found.iter().zip(expected).map(error).find(is_wrong);
    wrong.map(|error| format!("a relative error of {error:.1e}"))
}

/// Makes inputs without random numbers, whose state belongs to the run.
struct Inputs {
    kind: Kind,
    device: Device,
}

impl Inputs {
    /// A leaf with numbers in [-1, 1].
    fn leaf(&self, size: &[i64]) -> Tensor {
        let count = size.iter().product::<i64>();
        let numbers =
            (Tensor::arange(count, (Kind::Float, self.device)) * 0.7 + count as f64).sin();
        numbers.view(size).to_kind(self.kind).set_requires_grad(true)
    }

    /// The outputs, and gradients of a loss that weights every number of them.
    fn with_gradients(&self, outputs: &[Tensor], inputs: &[&Tensor]) -> Vec<Tensor> {
        let weighted = outputs.iter().map(|output| {
            let weights = (output.ones_like().cumsum(-1, Kind::Float) * 1.3).sin();
            (output * weights).sum(Kind::Float)
        });
        let loss = weighted.reduce(|a, b| a + b).expect("there are outputs");
        let mut all = Tensor::run_backward(&[loss], inputs, false, false);
        all.extend(outputs.iter().map(Tensor::detach));
        all
    }

    fn norm(&self) -> Vec<Tensor> {
        let [residual, branch] = [[2, 3, 40], [2, 3, 40]].map(|size| self.leaf(&size));
        let scale = self.leaf(&[40]);
        let norm = RmsNorm { scale: scale.shallow_clone(), epsilon: 1e-6 };
        let (sum, normal) = add_and_norm(&residual, &branch, &norm, Dropout::off());
        self.with_gradients(&[sum, normal], &[&residual, &branch, &scale])
    }

    fn gated_gelu(&self) -> Vec<Tensor> {
        let both = self.leaf(&[2, 3, 48]);
        let product = gated_gelu(&Joined::new(vec![both.shallow_clone()], 2));
        self.with_gradients(&[product], &[&both])
    }

    fn relative_position(&self) -> Vec<Tensor> {
        let embedding = self.leaf(&[2, 32]);
        let direction = RelativePosition::Bidirectional;
        let bias = relative_position_bias(&embedding, (24, 40), direction, 128);
        self.with_gradients(&[bias], &[&embedding])
    }

    /// Self-attention in rows of 160, of which one is full, one padded and two are packed; padding's results are not compared.
    fn attention(&self, learned_bias: bool, causal: bool) -> Vec<Tensor> {
        const EXAMPLES: [&[i64]; 4] = [&[160], &[131], &[1, 2, 40, 3, 100], &[64, 30, 9, 8, 7]];
        let (batch, length, count, width) = (EXAMPLES.len() as i64, 160, 2, 64);
        let joined = self.leaf(&[batch, length, 3 * count * width]);
        let by_distance = self.leaf(&[count, 2 * length - 1]);
        let heads = Heads { joined: Joined::new(vec![joined.shallow_clone()], 3), count };
        let ids = Tensor::zeros([batch, length], (Kind::Int64, Device::Cpu));
        for (row, lengths) in (0..).zip(EXAMPLES) {
            let mut start = 0;
            for (&length, id) in lengths.iter().zip(1..) {
                let _ = ids.get(row).narrow(0, start, length).fill_(id);
                start += length;
            }
        }
        let runs = Runs::between(&ids, &ids, self.device);
        let ids = ids.to_device(self.device);
        let real = ids.gt(0);
        let allowed = pairs(&real, &real).logical_and(&same_segment(&ids, &ids));
        let (runs, allowed) = match causal {
            false => (runs, allowed),
            true => {
                let causal = causal_mask(length, self.device);
                (runs.map(Runs::causal), allowed.logical_and(&causal))
            }
        };
        let learned = learned_bias.then(|| by_distance.unfold(1, length, 1).unsqueeze(0).flip([2]));
        let bias = AttentionBias::new(learned, &allowed).over(runs);
        let dims = AttentionDims { num_heads: count, head_dim: width, float32_logits: false };
        let averages = attention(&heads, &bias, &dims, Dropout::off());
        let averages = averages * real.unsqueeze(-1).to_kind(self.kind);
        let inputs = [&joined, &by_distance];
        self.with_gradients(&[averages], if learned_bias { &inputs } else { &inputs[..1] })
    }

    fn fp8_product(&self) -> Vec<Tensor> {
        let inputs = self.leaf(&[32, 48]);
        let params = Params::from_tensors([("a/kernel".to_string(), self.leaf(&[48, 64]))]);
        params.begin_fp8(Some(&TransformerEngineConfig {
            enable_fp8: true,
            fp8_format: Fp8Format::Hybrid,
            margin: 0.0,
            amax_history_len: 0,
        }));
        let product = Projection::new(&params, "a", self.kind).forward(&inputs);
        self.with_gradients(&[product], &[&inputs, params.get("a/kernel")])
    }

    fn cross_entropy(&self) -> Vec<Tensor> {
        let wide = Self { kind: Kind::Float, device: self.device };
        let (hidden, kernel) = (self.leaf(&[6, 16]), wide.leaf(&[16, 1000]));
        let head =
            Head { hidden, kernel, bias: None, scale: 1.0, vocabulary: Vocabulary::whole(1000) };
        let targets = Targets {
            tokens: Tensor::arange(6, (Kind::Int64, self.device)) * 150,
            coefficients: Tensor::ones([6], (Kind::Float, self.device)),
        };
        let spec = LossSpec { label_smoothing: 0.1, z_loss: 1e-2, ..LossSpec::default() };
        let (losses, scalar) = cross_entropy(&head, &targets, &spec);
        let mut all = Tensor::run_backward(&[scalar], &[&head.hidden, &head.kernel], false, false);
        all.extend([losses.loss, losses.z_loss]);
        all
    }

    fn adafactor(&self) -> Vec<Tensor> {
        let shapes: [&[usize]; 2] = [&[128, 136], &[24]];
        let names = ["matrix", "vector"];
        let params = [0, 1].map(|index| ParamShape {
            name: names[index],
            shape: shapes[index],
            axes: &["embed", "mlp"][..shapes[index].len()],
        });
        let spec = OptimizerDef::Adafactor(Adafactor::default());
        let mut optimizer = Optimizer::new(&spec, &params, self.device).expect("a layout");
        let tensors = [self.leaf(&[128, 136]), self.leaf(&[24])].map(|leaf| leaf.detach().copy());
        let grads = tensors.each_ref().map(Tensor::cos);
        let gradients = [0, 1].map(|index| Gradient {
            name: names[index],
            param: &tensors[index],
            grad: &grads[index],
        });
        let before = tensors.each_ref().map(Tensor::copy);
        optimizer.apply(&gradients, 0.1, 0).expect("an update");
        tensors.iter().zip(&before).map(|(after, before)| after - before).collect()
    }

    /// The update of two kernels that are read as one copy, the second times a factor: the parameters' changes, the copy, and
    /// the norm of the gradients.
    fn adafactor_of_copies(&self) -> Vec<Tensor> {
        let names = ["a/kernel", "b/kernel"];
        let before = names.map(|_| self.leaf(&[128, 136]).detach());
        let own = names.iter().zip(&before).map(|(name, values)| (name.to_string(), values.copy()));
        let params = Params::from_tensors(own);
        let shapes =
            names.map(|name| ParamShape { name, shape: &[128, 136], axes: &["embed", "mlp"] });
        let spec = OptimizerDef::Adafactor(Adafactor::default());
        let mut optimizer = Optimizer::new(&spec, &shapes, self.device).expect("a layout");
        let kernels = [("a", 1.0), ("b", 0.5)];
        let product = || {
            let both = Projections::of_copy(&params, &kernels, Kind::BFloat16);
            let inputs = Inputs { kind: Kind::BFloat16, ..*self }.leaf(&[24, 128]).detach();
            both.expect("kernels are float32").forward(&inputs).wholes()[0].to_kind(Kind::Float)
        };
        let mut watch = Watch::default();
        let backward = || product().sin().sum(Kind::Float).backward();
        let made = optimizer.update(&params, 0.1, 0, &mut watch, Incoming::default(), backward);
        made.expect("an update");
        let changes = params.iter().zip(&before).map(|((_, after), before)| after - before);
        let mut all: Vec<Tensor> = changes.collect();
        all.push(tch::no_grad(product));
        all.push(Tensor::from_slice(&watch.read().into_values().collect::<Vec<_>>()));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_that_fails_or_differs_is_not_used() {
        // On a CPU no kernel is used, so any one may stand for the tested one.
        let kernel = Kernel::RelativePosition;
        let check = |with: &dyn Fn() -> f64, expected: bool| {
            kernel.trust(true);
            try_one(kernel, || vec![Tensor::from(if kernel.is_trusted() { with() } else { 2.0 })]);
            assert_eq!(kernel.is_trusted(), expected);
        };
        check(&|| 2.01, true);
        check(&|| 3.0, false);
        check(&|| f64::NAN, false);
        let fails = || Tensor::from(1.0).view([2]).double_value(&[]);
        check(&fails, false);
        kernel.trust(true);
    }

    #[test]
    fn trials_compare_results_and_gradients_that_are_not_zero() {
        for kind in [Kind::Float, Kind::BFloat16] {
            let inputs = Inputs { kind, device: Device::Cpu };
            let wide = Inputs { kind: Kind::Float, device: Device::Cpu };
            let all = [
                inputs.norm(),
                inputs.gated_gelu(),
                inputs.relative_position(),
                inputs.attention(true, true),
                inputs.attention(false, false),
                inputs.fp8_product(),
                inputs.cross_entropy(),
                wide.adafactor(),
                wide.adafactor_of_copies(),
            ];
            for results in &all {
                assert!(results.iter().all(Tensor::defined));
                assert_eq!(difference(results, results), None);
                let doubled: Vec<Tensor> = results.iter().map(|result| result * 2).collect();
                assert!(difference(&doubled, results).is_some());
            }
        }
    }
}
