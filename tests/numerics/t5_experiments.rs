//! Compares T5s of t5-experiments, some with memory tokens or with heads whose queries depend on the row, with its own program,
//! and the first values of new ones: t5_experiments.py writes the numbers.

use std::collections::BTreeMap;

use gimlet::metrics::sum;
use gimlet::models::heads::{LossNormalizingFactor, LossSpec};
use gimlet::models::t5::{FirstValues, T5, T5Config};
use gimlet::models::{Network, feature};
use gimlet::nn::{Activation, Dropout, Params, RematPolicy};
use serde_json::Value;
use tch::{Device, Kind, Tensor};

use crate::adafactor::noise;
use crate::fixture;

/// A norm, and products with noise.
type Products = Vec<f64>;

fn expected() -> Value {
    serde_json::from_str(include_str!("t5_experiments.json")).expect("it is JSON")
}

/// The network of a configuration of transformers.
fn config(of: &Value) -> T5Config {
    let number = |name: &str| of[name].as_u64().unwrap_or(0) as usize;
    T5Config {
        vocab_size: number("vocab_size"),
        emb_dim: number("d_model"),
        num_heads: number("num_heads"),
        num_cdq_heads: number("num_cdq_heads"),
        num_memory_tokens: number("num_memory_tokens"),
        num_encoder_layers: number("num_layers"),
        num_decoder_layers: number("num_decoder_layers"),
        head_dim: number("d_kv"),
        mlp_dim: number("d_ff"),
        mlp_activations: match of["feed_forward_proj"] == "relu" {
            true => vec![Activation::Relu],
            false => vec![Activation::Gelu, Activation::Linear],
        },
        logits_via_embedding: true,
        ..T5Config::t5_1_1_small()
    }
}

/// Compares a tensor by its products with noise, of each of which the squared error is about a twelfth of the tensor's.
pub fn check(what: &str, found: &Tensor, wanted: &Value) {
    let wanted: Products = serde_json::from_value(wanted.clone()).expect("numbers");
    let flat = found.detach().reshape(-1).to_kind(Kind::Double);
    let product = |seed| {
        let noise = noise(&[flat.numel()], seed).to_kind(Kind::Double);
        flat.dot(&noise).double_value(&[])
    };
    let errors = wanted[1..].iter().zip(1..).map(|(wanted, seed)| (product(seed) - wanted).powi(2));
    let error = (12.0 * errors.sum::<f64>() / (wanted.len() - 1) as f64).sqrt() / wanted[0];
    assert!(error < 1e-5, "{what}: relative error {error}");
}

/// Compares loss, gradients and the logits of counted positions, float32. On one thread, as the program ran.
fn check_model(name: &str) {
    // Layers that are made again set the generator's state.
    let _held = fixture::generator();
    tch::set_num_threads(1);
    let expected = &expected()["models"][name];
    let rows = |name: &str| serde_json::from_value::<Vec<Vec<i64>>>(expected[name].clone());
    let [inputs, targets] = ["inputs", "targets"].map(|name| rows(name).expect("rows of ids"));
    let batch = fixture::batch(&inputs, &targets);
    let mean = Some(LossNormalizingFactor::NumRealTargetTokens);
    let spec = LossSpec { loss_normalizing_factor: mean, ..LossSpec::default() };
    for remat_policy in [RematPolicy::None, RematPolicy::Minimal, RematPolicy::Full] {
        let config = T5Config { remat_policy, ..config(&expected["config"]) };
        let t5 = T5::new(config.transformer());
        let params = fixture::imported(&format!("t5_experiments/{name}.safetensors"), t5.spec());
        let counted =
            batch.tensor(feature::DECODER_TARGET_TOKENS).gt(0).view(-1).nonzero().view(-1);
        let logits = t5.logits(&params, &batch, Dropout::off()).flatten(0, 1);
        check("logits", &logits.index_select(0, &counted), &expected["logits"]);
        let output = t5.loss(&params, &batch, &spec, Dropout::off());
        let (found, wanted) = (output.sums.read().get(sum::LOSS), &expected["loss"]);
        let wanted = wanted.as_f64().expect("a number");
        assert!((found / wanted - 1.0).abs() < 1e-6, "loss {found}, expected {wanted}");
        let gradients = params.gradients(&output.loss);
        let wanted = expected["gradients"].as_object().expect("gradients by name");
        assert_eq!(wanted.len(), gradients.len());
        for ((name, _), found) in params.iter().zip(&gradients) {
            check(&format!("gradient of {name}, {remat_policy:?}"), found, &wanted[name]);
        }
    }
}

#[test]
fn relu_and_gated_gelu_equal_those_of_t5_experiments() {
    check_model("t5_relu_tied");
    check_model("t5_gated_gelu");
}

#[test]
fn memory_tokens_equal_those_of_t5_experiments() {
    check_model("t5_memory_5");
}

#[test]
fn heads_with_queries_of_the_row_equal_those_of_t5_experiments() {
    check_model("t5_cdq_mixed");
    check_model("t5_cdq_only");
}

/// Compares a new parameter with one that t5-experiments drew: deviations within four errors of two samples, and greatest
/// magnitudes, which distributions of one deviation differ in.
fn check_fresh(name: &str, found: &Tensor, [_, deviation, largest]: [f64; 3]) {
    let found_largest = found.abs().max().double_value(&[]);
    if deviation == 0.0 {
        assert_eq!(found_largest, largest, "{name}");
        return;
    }
    let error = found.std(false).double_value(&[]) / deviation - 1.0;
    let tolerance = 4.0 / (found.numel() as f64).sqrt();
    assert!(error.abs() < tolerance, "deviation of {name}: off by {error} of {tolerance}");
    let ratio = found_largest / largest;
    assert!((0.7..1.45).contains(&ratio), "greatest of {name}: {ratio} times the expected one");
}

#[test]
fn first_values_are_distributed_as_those_of_t5_experiments() {
    let _held = fixture::generator();
    let base = T5Config {
        vocab_size: 512,
        emb_dim: 192,
        num_heads: 8,
        num_encoder_layers: 1,
        num_decoder_layers: 1,
        head_dim: 24,
        mlp_dim: 320,
        initializers: FirstValues::Transformers,
        ..T5Config::t5_1_1_small()
    };
    let relu = T5Config {
        mlp_activations: vec![Activation::Relu],
        logits_via_embedding: true,
        ..base.clone()
    };
    let half = T5Config { initializer_factor: 0.5, num_memory_tokens: 16, ..base };
    let cdq = T5Config { num_cdq_heads: 4, ..relu.clone() };
    let models = [
        ("t5_relu_tied", relu),
        ("t5_gated_untied_memory_factor_0.5", half),
        ("t5_cdq_mixed", cdq),
    ];
    for (name, config) in models {
        let wanted: BTreeMap<String, [f64; 3]> =
            serde_json::from_value(expected()["fresh"][name].clone()).expect("numbers by name");
        let params = Params::init(&config.param_tree(), 1, Device::Cpu);
        assert!(params.iter().map(|(name, _)| name).eq(wanted.keys()), "{name}");
        for (param, found) in params.iter() {
            check_fresh(param, found, wanted[param]);
        }
    }
}
