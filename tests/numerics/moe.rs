//! Compares layers with experts with flaxformer's, whose numbers moe.py writes: float32, each array within 1e-5 of its norm.

use gimlet::metrics::sum;
use gimlet::models::heads::{LossNormalizingFactor, LossSpec, RoutingLosses};
use gimlet::models::parts::FeedForwardSpec;
use gimlet::models::t5::{T5, T5Config};
use gimlet::models::transformer::{LayerLayout, SparseLayers, StackSpec, TransformerSpec};
use gimlet::models::{Batch, Network, feature};
use gimlet::nn::{
    Activation, Axis, Division, Dropout, Dtype, ExpertKernels, Experts, ExpertsSpec,
    IgnoredPadding, Initializer, ParamSpec, Params, RematPolicy, RouterSpec, Routing,
};
use serde_json::Value;
use tch::{Kind, Tensor};

use crate::adafactor::noise;

/// The weights of the losses of routers.
const FACTORS: [f64; 2] = [0.3, 0.2];
const GATED: [Activation; 2] = [Activation::Gelu, Activation::Linear];

fn expected() -> Value {
    serde_json::from_str(include_str!("moe.json")).expect("it is JSON")
}

fn numbers(value: &Value) -> Tensor {
    let numbers = value.as_array().expect("an array").iter();
    let numbers: Vec<f32> = numbers.map(|x| x.as_f64().expect("a number") as f32).collect();
    Tensor::from_slice(&numbers)
}

fn check(what: &str, found: &Tensor, wanted: &Value) {
    let wanted = numbers(wanted);
    let norm = |tensor: &Tensor| tensor.square().sum(Kind::Double).sqrt().double_value(&[]);
    let error = norm(&(found.reshape(-1) - &wanted));
    assert!(error <= 1e-5 * norm(&wanted) + 1e-7, "{what}: {found} instead of {wanted}");
}

fn choose(num_selected_experts: usize, batch_prioritized: bool) -> Routing {
    let padding = IgnoredPadding::Removed;
    Routing::TokensChoose { num_selected_experts, batch_prioritized, padding }
}

fn spec(routing: Routing) -> ExpertsSpec {
    ExpertsSpec {
        num_experts: 4,
        max_group_size: 16,
        train_capacity_factor: 1.0,
        eval_capacity_factor: 2.0,
        min_expert_capacity: 1,
        dropout_rate: 0.0,
        dtype: Dtype::Float32,
        initializer: Initializer::ONES,
        router: RouterSpec {
            routing,
            use_bias: false,
            weights_dtype: Dtype::Float32,
            dtype: Dtype::Float32,
            jitter_noise: 0.0,
            ignore_padding_tokens: false,
            initializer: Initializer::ONES,
        },
    }
}

fn check_layer(name: &str, spec: &ExpertsSpec, shape: [usize; 2], dropout: Dropout) {
    let expected = &expected()["layers"][name];
    let mut seed = 0;
    let mut param = |shape: &[usize]| {
        seed += 1;
        noise(shape, seed).set_requires_grad(true)
    };
    let kernels = [[4, 6, 5], [4, 6, 5], [4, 5, 6]].map(|shape| param(&shape));
    let bias = spec.router.use_bias.then(|| param(&[4]));
    let router = param(&[6, 4]);
    let mut leaves: Vec<Tensor> = kernels.iter().map(Tensor::shallow_clone).collect();
    leaves.extend(bias.as_ref().map(Tensor::shallow_clone));
    leaves.push(router.shallow_clone());
    let [first, second, output] = kernels;
    let (inputs, axis) = (vec![first, second], Axis::default());
    let kernels = ExpertKernels { router, router_bias: bias, inputs, output, axis };
    let experts = Experts::new(spec, &GATED, kernels, &Division::default().into());
    let inputs = noise(&[shape[0], shape[1], 6], 100) * 4.0;
    if spec.router.ignore_padding_tokens {
        let _ = inputs.narrow(1, 6, 2).zero_();
    }
    let inputs = inputs.set_requires_grad(true);
    let (outputs, report) = experts.forward(&inputs, dropout);
    let weights = noise(&[shape[0], shape[1], 6], 101);
    let of_routers = report.0.select(0, 0) * FACTORS[0] + report.0.select(0, 1) * FACTORS[1];
    let loss = (&outputs * weights).sum(Kind::Float) + of_routers;
    check(&format!("outputs of {name}"), &outputs, &expected["outputs"]);
    check(&format!("report of {name}"), &report.0, &expected["report"]);
    leaves.push(inputs);
    let gradients = Tensor::run_backward(&[loss], &leaves, false, false);
    let wanted = expected["gradients"].as_object().expect("an object");
    assert_eq!(wanted.len() + 1, gradients.len());
    for ((param, wanted), found) in wanted.iter().zip(&gradients) {
        check(&format!("gradient of {param} in {name}"), found, wanted);
    }
    check(
        &format!("gradient of inputs of {name}"),
        &gradients[wanted.len()],
        &expected["of_inputs"],
    );
}

#[test]
fn layers_of_experts_equal_those_of_flaxformer() {
    let train = Dropout::train(0.0);
    let ignoring = |spec: ExpertsSpec| {
        let router = RouterSpec { ignore_padding_tokens: true, ..spec.router };
        ExpertsSpec { router, ..spec }
    };
    check_layer("masked_top_2", &spec(choose(2, true)), [4, 8], train);
    let wide = ExpertsSpec { train_capacity_factor: 1.5, ..spec(choose(1, false)) };
    check_layer("masked_top_1_in_order", &wide, [4, 8], train);
    check_layer("masked_without_padding", &ignoring(spec(choose(2, false))), [4, 8], train);
    let scatter = Routing::TokensChoose {
        num_selected_experts: 2,
        batch_prioritized: true,
        padding: IgnoredPadding::Outweighed,
    };
    check_layer("scatter_with_padding", &ignoring(spec(scatter)), [4, 8], train);
    let double = ExpertsSpec { train_capacity_factor: 2.0, ..spec(Routing::ExpertsChoose) };
    check_layer("experts_choose", &double, [4, 8], train);
    let small = ExpertsSpec { min_expert_capacity: 2, ..spec(choose(1, false)) };
    check_layer("one_group_of_evaluation", &small, [3, 3], Dropout::off());
    let plain = spec(choose(3, true));
    let biased = RouterSpec { use_bias: true, ..plain.router.clone() };
    check_layer("biased_scores", &ExpertsSpec { router: biased, ..plain }, [4, 4], train);
}

/// An encoder-decoder whose second layers have experts, and a dense block after them.
fn network() -> TransformerSpec {
    let config = T5Config {
        vocab_size: 16,
        emb_dim: 6,
        num_heads: 2,
        num_encoder_layers: 2,
        num_decoder_layers: 2,
        head_dim: 4,
        mlp_dim: 5,
        ..T5Config::t5_1_1_small()
    };
    let sparse = |batch_prioritized| {
        let block = |norm, name, experts| FeedForwardSpec {
            norm,
            name,
            dim: 5,
            activations: GATED.to_vec(),
            experts,
        };
        let experts = Some(spec(choose(2, batch_prioritized)));
        Some(SparseLayers {
            num_layers: 1,
            layout: LayerLayout::Mixed,
            blocks: vec![
                block("pre_mlp_layer_norm", "mlp", experts),
                block("pre_extra_mlp_layer_norm", "extra_mlp", None),
            ],
        })
    };
    let dense = config.transformer();
    let encoder = dense.encoder.map(|stack| StackSpec { sparse: sparse(true), ..stack });
    let decoder = StackSpec { sparse: sparse(false), ..dense.last };
    TransformerSpec { encoder, last: decoder, ..dense }
}

fn with_policy(mut spec: TransformerSpec, remat_policy: RematPolicy) -> TransformerSpec {
    for stack in spec.encoder.iter_mut().chain([&mut spec.last]) {
        stack.dims.remat_policy = remat_policy;
    }
    spec
}

fn params(tree: &[ParamSpec]) -> Params {
    Params::from_tensors(tree.iter().zip(1..).map(|(param, seed)| {
        let near = if param.name.ends_with("scale") { 1.0 } else { 0.0 };
        (param.name.clone(), noise(&param.shape, seed) + near)
    }))
}

fn batch() -> Batch {
    let inputs = [[3i64, 4, 5, 6, 7, 1, 0, 0], [9, 8, 7, 1, 0, 0, 0, 0]];
    let (shifted, targets) =
        ([[0i64, 5, 6, 7, 8, 9], [0, 4, 3, 1, 0, 0]], [[5i64, 6, 7, 8, 9, 1], [4, 3, 1, 0, 0, 0]]);
    let targets = Tensor::from_slice2(&targets);
    Batch::new([
        (feature::ENCODER_INPUT_TOKENS, Tensor::from_slice2(&inputs)),
        (feature::DECODER_INPUT_TOKENS, Tensor::from_slice2(&shifted)),
        (feature::DECODER_LOSS_WEIGHTS, targets.gt(0).to_kind(Kind::Float)),
        (feature::DECODER_TARGET_TOKENS, targets),
    ])
}

#[test]
fn a_network_with_experts_has_flaxformer_s_parameters_loss_and_gradients() {
    tch::set_num_threads(1);
    let expected = &expected()["network"];
    let routing =
        RoutingLosses { aux_loss_factor: FACTORS[0], router_z_loss_factor: FACTORS[1], share: 1.0 };
    let loss = LossSpec {
        loss_normalizing_factor: Some(LossNormalizingFactor::NumRealTargetTokens),
        routing: Some(routing),
        ..LossSpec::default()
    };
    for policy in [RematPolicy::None, RematPolicy::Minimal, RematPolicy::Full] {
        let t5 = T5::new(with_policy(network(), policy));
        let tree = t5.spec().param_tree();
        let params = params(&tree);
        let output = t5.loss(&params, &batch(), &loss, Dropout::train(0.0));
        let sums = output.sums.read();
        let found = sums.get(sum::LOSS);
        let wanted = expected["loss"].as_f64().expect("a number");
        assert!((found / wanted - 1.0).abs() < 1e-5, "loss {found}, expected {wanted}");
        let factors = FACTORS.into_iter().chain(std::iter::repeat(1.0));
        let report =
            sum::OF_EXPERTS.iter().zip(factors).map(|(name, factor)| sums.get(name) / factor);
        let report: Vec<f32> = report.map(|number| number as f32).collect();
        check("report", &Tensor::from_slice(&report), &expected["report"]);
        let gradients = params.gradients(&output.loss);
        let wanted = expected["gradients"].as_object().expect("an object");
        let names: Vec<&String> = tree.iter().map(|param| &param.name).collect();
        assert_eq!(wanted.keys().collect::<Vec<_>>(), names);
        for ((name, wanted), found) in wanted.iter().zip(&gradients) {
            let shape: Vec<i64> = serde_json::from_value(wanted["shape"].clone()).expect("a shape");
            assert_eq!(found.size(), shape, "{name}");
            check_sample(name, found, wanted);
        }
    }
}

/// Compares up to about 8 elements and the root mean square.
fn check_sample(name: &str, found: &Tensor, wanted: &Value) {
    let rms = found.square().mean(Kind::Double).sqrt().double_value(&[]);
    let wanted_rms = wanted["rms"].as_f64().expect("a number");
    assert!((rms - wanted_rms).abs() <= 1e-5 * wanted_rms + 1e-8, "{name}: {rms}, {wanted_rms}");
    let flat = found.reshape(-1);
    let places = Tensor::arange_start_step(
        0,
        flat.size()[0],
        (flat.size()[0] / 8).max(1),
        (Kind::Int64, found.device()),
    );
    let errors = (flat.index_select(0, &places) - numbers(&wanted["values"])).abs();
    let error = errors.max().double_value(&[]);
    assert!(error <= 2e-5 * wanted_rms + 1e-8, "{name}: off by {error} of {wanted_rms}");
}

#[test]
fn parts_of_a_batch_have_the_losses_of_the_whole() {
    let experts = spec(choose(2, true));
    let kernels = || ExpertKernels {
        router: noise(&[6, 4], 5),
        router_bias: None,
        inputs: vec![noise(&[4, 6, 5], 1), noise(&[4, 6, 5], 2)],
        output: noise(&[4, 5, 6], 3),
        axis: Axis::default(),
    };
    let experts = Experts::new(&experts, &GATED, kernels(), &Division::default().into());
    let inputs = noise(&[4, 8, 6], 100) * 4.0;
    let (whole, report) = experts.forward(&inputs, Dropout::train(0.0));
    let part = |index: usize| {
        let rows = inputs.narrow(0, 2 * index as i64, 2);
        experts.forward(&rows, Dropout::train(0.0).of_part(index, 2))
    };
    let [(first, of_first), (second, of_second)] = [part(0), part(1)];
    assert!(Tensor::cat(&[first, second], 0).allclose(&whole, 1e-5, 1e-6, false));
    assert!(((of_first.0 + of_second.0) / 2.0).allclose(&report.0, 1e-5, 1e-6, false));
}
