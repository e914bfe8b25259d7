//! Steps in float16 with a scale of the loss, beside the same in float32: a T5, a BERT, and a BERT that attends to blocks.

use gimlet::models::bert::{AbsolutePositions, Bert, BertConfig, PositionEmbedding};
use gimlet::models::heads::LossSpec;
use gimlet::models::t5::T5;
use gimlet::models::transformer::TransformerSpec;
use gimlet::models::{Batch, ModuleSpec, Network, feature};
use gimlet::nn::{
    Activation, Axes, BigBirdSparsityConfig, Dropout, Dtype, LayoutDirection, LayoutHeads, Params,
    RematPolicy, SparsityConfig,
};
use gimlet::optim::{Adafactor, Incoming, LossScale, Optimizer, OptimizerDef, ParamShape, Watch};
use tch::{Device, Kind, Tensor};

use crate::{cuda, launches, model, over_runs, relative_error};

/// The scale of a loss that is a sum over some hundred tokens: gradients stay below 65504.
const SCALE: f64 = 64.0;
/// Roundings to eleven bits in two layers of each stack.
const TOLERANCE: f64 = 2e-2;

fn bert(dtype: Dtype, sparsity: Option<SparsityConfig>) -> BertConfig {
    BertConfig {
        vocab_size: 256,
        dtype,
        hidden_size: 128,
        num_hidden_layers: 2,
        num_attention_heads: 4,
        intermediate_size: 256,
        hidden_act: Activation::GeluExact,
        hidden_dropout_prob: 0.0,
        attention_probs_dropout_prob: 0.0,
        max_position_embeddings: 128,
        type_vocab_size: 2,
        initializer_range: 0.02,
        layer_norm_eps: 1e-12,
        position_embedding: PositionEmbedding::Absolute(AbsolutePositions {}),
        pre_layer_norm: true,
        last_layer_norm: None,
        sparsity,
        sparsity_seed: 42,
        remat_policy: RematPolicy::None,
    }
}

fn big_bird() -> SparsityConfig {
    SparsityConfig::BigBird(BigBirdSparsityConfig {
        heads: LayoutHeads { num_heads: 4, block: 16, different_layout_per_head: true },
        num_random_blocks: 1,
        num_sliding_window_blocks: 3,
        num_global_blocks: 1,
        attention: LayoutDirection::Bidirectional,
    })
}

/// Rows of 128 tokens of which the second one ends in padding, with every fifth masked.
fn masked(device: Device) -> Batch {
    let places = Tensor::arange(2 * 128, (Kind::Int64, Device::Cpu)).view([2, 128]);
    let tokens = ((&places * 37).remainder(250) + 5) * places.lt(240);
    let weights = places.remainder(5).eq(0).logical_and(&tokens.gt(0)).to_kind(Kind::Float);
    let batch = Batch::new([
        (feature::ENCODER_TOKEN_TYPES, places.remainder(128).ge(64).to_kind(Kind::Int64)),
        (feature::ENCODER_TARGET_TOKENS, tokens.copy()),
        (feature::ENCODER_LOSS_WEIGHTS, weights),
        (feature::NEXT_SENTENCE_LABEL, Tensor::from_slice(&[0i64, 1]).unsqueeze(-1)),
        (feature::ENCODER_INPUT_TOKENS, tokens),
    ]);
    batch.to_device(device)
}

/// Parameters and the state of an optimizer on the device.
fn state(spec: &TransformerSpec, device: Device) -> (Params, Optimizer) {
    let tree = spec.param_tree();
    let drawn = Params::init(&tree, 3, Device::Cpu);
    let moved = drawn.iter().map(|(name, tensor)| (name.to_string(), tensor.to_device(device)));
    let shapes: Vec<ParamShape<'_>> = tree
        .iter()
        .map(|param| ParamShape { name: &param.name, shape: &param.shape, axes: &[] })
        .collect();
    let def = OptimizerDef::from(Adafactor::default());
    let optimizer = Optimizer::new(&def, &shapes, device).expect("a layout");
    (Params::from_tensors(moved.collect::<Vec<_>>()), optimizer)
}

/// Compares the loss and every gradient, and makes an update and one that overflows. In float16 these operations run.
fn check(name: &str, networks: [&dyn Network; 2], of: (&TransformerSpec, &Batch), ran: &[&str]) {
    let (spec, batch) = of;
    let device = Device::Cuda(0);
    let (params, mut optimizer) = state(spec, device);
    let results = |network: &dyn Network, scale: f64| {
        let output = network.loss(&params, batch, &LossSpec::default(), Dropout::off());
        let gradients = params.gradients(&(&output.loss * scale)).into_iter();
        gradients.map(|it| it / scale).chain([output.loss.detach()]).collect::<Vec<_>>()
    };
    let [wide, half] = networks;
    let (found, not_ran) = launches::without(ran, || results(half, SCALE));
    assert_eq!(not_ran, [""; 0], "{name}: these did not run");
    // Scores do not change by what all keys have in common, so that the gradients of this bias are roundings.
    let names = params.iter().map(|(name, _)| name).chain(["the loss"]);
    let expected = results(wide, 1.0);
    let compared = names.zip(found.iter().zip(&expected));
    for (result, (found, expected)) in compared.filter(|(name, _)| !name.ends_with("key/bias")) {
        let error = relative_error(found, expected);
        assert!(error < TOLERANCE, "{name}, {result}: relative error {error}");
    }
    let copies = || params.iter().map(|(_, param)| param.detach().copy()).collect::<Vec<_>>();
    let before = copies();
    for (scale, expected) in [(1e30, false), (SCALE, true)] {
        let loss = half.loss(&params, batch, &LossSpec::default(), Dropout::off()).loss * scale;
        let scale = LossScale { scale, axes: Axes::default() };
        let incoming = Incoming { loss_scale: Some(&scale), ..Incoming::default() };
        let backward = || loss.backward();
        let made = optimizer.update(&params, 0.01, 0, &mut Watch::default(), incoming, backward);
        assert_eq!(made, Ok(expected), "{name}");
        assert_eq!(copies() == before, !expected, "{name}");
    }
}

#[test]
fn a_step_in_float16_is_near_one_in_float32() {
    let (device, _held) = cuda();
    let [wide, half] =
        [Dtype::Float32, Dtype::Float16].map(|dtype| model::config(dtype).transformer());
    let batch = model::packed(device);
    let (wide, half) = (T5::new(wide), T5::new(half));
    let ran = [*over_runs(true), *over_runs(false)].concat();
    check("T5", [&wide, &half], (wide.spec(), &batch), &ran);
    for (name, sparsity, ran) in
        [("BERT", None, &over_runs(false)[..]), ("BERT with blocks", Some(big_bird()), &[])]
    {
        let [wide, half] = [Dtype::Float32, Dtype::Float16]
            .map(|dtype| bert(dtype, sparsity.clone()).transformer());
        let networks = [Bert::new(wide.clone()), Bert::new(half)];
        check(name, [&networks[0], &networks[1]], (&wide, &masked(device)), ran);
    }
}
