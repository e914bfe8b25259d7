//! LoRA: an addition of low rank gives what the kernel with the addition in it gives, in training, with layers that are
//! made again, and in predictions; its factors have the gradients that follow from the kernel's (float32, relative 3e-5), and parameters
//! without an optimizer have none.

use gimlet::models::heads::LossSpec;
use gimlet::models::t5::{T5, T5Config};
use gimlet::models::transformer::TransformerSpec;
use gimlet::models::{Batch, LoRA, Network};
use gimlet::nn::{Dropout, Params, RematPolicy};
use tch::{Kind, Tensor};

use crate::fixture;

const TOLERANCE: f64 = 3e-5;
const LORA: &str = "/lora_";

fn lora() -> LoRA {
    let projections = vec![".*/(query|value|wi_1)".to_string(), "/decoder/.*/(out|wo)".to_string()];
    LoRA { rank: 3, alpha: 5.0, dropout_rate: 0.0, projections }
}

fn spec(config: &T5Config, remat_policy: RematPolicy) -> TransformerSpec {
    T5Config { remat_policy, ..config.clone() }.transformer()
}

/// Returns parameters of which no factor is zero, and the same network's with the additions in its kernels.
fn parameters(spec: &TransformerSpec) -> (Params, Params) {
    let drawn = Params::init(&spec.param_tree(), 4, tch::Device::Cpu);
    let own = |(name, tensor): (&str, &Tensor)| {
        let values = match name.ends_with("lora_b") {
            true => Tensor::arange(tensor.numel() as i64, (Kind::Float, tch::Device::Cpu))
                .sin()
                .view_as(tensor),
            false => tensor.detach().copy(),
        };
        (name.to_string(), values)
    };
    let params = Params::from_tensors(drawn.iter().map(own));
    let merged = params.iter().filter(|(name, _)| !name.contains(LORA)).map(|(name, tensor)| {
        let path = name.strip_suffix("kernel").unwrap_or("none");
        let factor = |end: &str| params.find(&format!("{path}{end}"));
        let kernel = match (factor("lora_a"), factor("lora_b")) {
            (Some(first), Some(second)) => tensor + first.matmul(second) * (5.0 / 3.0),
            _ => tensor.shallow_clone(),
        };
        (name.to_string(), kernel.detach())
    });
    let merged = Params::from_tensors(merged);
    (params, merged)
}

fn batch() -> Batch {
    let inputs = [vec![5, 9, 3, 7, 12, 1], vec![4, 4, 8, 1, 0, 0]];
    let targets = [vec![6, 2, 1, 0, 0], vec![3, 17, 5, 2, 1]];
    fixture::batch(&inputs, &targets)
}

fn gradients(spec: &TransformerSpec, params: &Params) -> Vec<Tensor> {
    let t5 = T5::new(spec.clone());
    params.gradients(&t5.loss(params, &batch(), &LossSpec::default(), Dropout::off()).loss)
}

fn assert_near(found: &Tensor, expected: &Tensor, what: &str) {
    let largest = |tensor: &Tensor| tensor.abs().max().double_value(&[]);
    let error = largest(&(found - expected)) / largest(expected);
    assert!(error < TOLERANCE, "{what}: {error}");
}

#[test]
fn factors_give_what_their_kernel_gives_and_its_gradients() {
    let _held = fixture::generator();
    let plain = fixture::tiny_config();
    for config in [plain.clone(), T5Config { scale_attn_logits: true, ..plain }] {
        let of_kernels = spec(&config, RematPolicy::None);
        let with = |policy| spec(&config, policy).with_lora(Some(&lora()));
        let (params, merged) = parameters(&with(RematPolicy::None));
        let frozen = params.clone().freeze(&|name| !name.contains(LORA));
        let expected = gradients(&of_kernels, &merged);
        let expected: Vec<_> = merged.iter().map(|(name, _)| name).zip(&expected).collect();
        for policy in [RematPolicy::None, RematPolicy::Minimal, RematPolicy::Full] {
            let t5 = T5::new(with(policy));
            let logits = t5.logits(&params, &batch(), Dropout::off());
            let of_merged = T5::new(of_kernels.clone()).logits(&merged, &batch(), Dropout::off());
            assert_near(&logits, &of_merged, "logits");
            let found = gradients(&with(policy), &frozen);
            for ((name, leaf), found) in frozen.iter().zip(found) {
                if !name.contains(LORA) {
                    assert!(!leaf.requires_grad() && found.abs().max().double_value(&[]) == 0.0);
                    continue;
                }
                let (path, _) = name.rsplit_once('/').expect("names are paths");
                let factor = |end: &str| params.get(&format!("{path}/{end}"));
                let is_kernel = |(other, _): &&(&str, &Tensor)| *other == format!("{path}/kernel");
                let (_, kernel) = expected.iter().find(is_kernel).expect("it has a kernel");
                let gradient = match name.ends_with("lora_a") {
                    true => kernel.matmul(&factor("lora_b").tr()),
                    false => factor("lora_a").tr().matmul(kernel),
                };
                assert_near(&found, &(gradient * (5.0 / 3.0)), &format!("{policy:?}, {name}"));
            }
        }
    }
}

#[test]
fn a_head_is_trained_before_frozen_layers() {
    let _held = fixture::generator();
    let spec = spec(&fixture::tiny_config(), RematPolicy::None);
    let drawn = || Params::init(&spec.param_tree(), 4, tch::Device::Cpu);
    let is_head = |name: &str| name == "decoder/logits_dense/kernel";
    let (whole, frozen) = (drawn(), drawn().freeze(&|name| !is_head(name)));
    let of_head = |params: &Params| {
        let gradients = gradients(&spec, params);
        let place = params.iter().position(|(name, _)| is_head(name)).expect("it has a head");
        gradients[place].shallow_clone()
    };
    assert_near(&of_head(&frozen), &of_head(&whole), "the head");
}

#[test]
fn inputs_of_additions_alone_are_dropped() {
    let _held = fixture::generator();
    let config = fixture::tiny_config();
    let dropping = LoRA { dropout_rate: 0.5, ..lora() };
    let with = spec(&config, RematPolicy::None).with_lora(Some(&dropping));
    let (params, _) = parameters(&with);
    let logits = |params: &Params, dropout: Dropout| {
        tch::manual_seed(5);
        T5::new(with.clone()).logits(params, &batch(), dropout)
    };
    let whole = logits(&params, Dropout::off());
    assert!(!whole.allclose(&logits(&params, Dropout::train(0.0)), 1e-3, 1e-3, false));
    let drawn = Params::init(&with.param_tree(), 4, tch::Device::Cpu);
    let found = [Dropout::off(), Dropout::train(0.0)].map(|dropout| logits(&drawn, dropout));
    assert_eq!(found[0], found[1], "additions of zero stay zero");
}
