//! Activations other than T5's own: `gimlet checkpoint convert` writes them such that transformers computes our logits.

use gimlet::models::t5::T5;
use gimlet::nn::{Activation, Dropout, Params};
use serde_json::Value;
use tch::{Kind, Tensor};

use crate::fixture;

const ACTIVATIONS: [Activation; 7] = [
    Activation::Relu,
    Activation::Gelu,
    Activation::Linear,
    Activation::Silu,
    Activation::Swish,
    Activation::Sigmoid,
    Activation::Tanh,
];

/// Float32, within 2e-5; logits are of the size of 1. `data/make_hf_activations.py` made the expected ones.
#[test]
fn transformers_computes_our_logits_with_what_is_written() {
    let record = fixture::record("hf_activations.json");
    let ids = |name: &str| -> Vec<i64> { serde_json::from_value(record[name].clone()).unwrap() };
    let batch = fixture::batch(&[ids("inputs")], &[ids("targets")]);
    let model = fixture::hugging_face("hf_untied_gated_gelu");
    for case in record["cases"].as_array().expect("a list") {
        let activations: Vec<Activation> =
            names(case).iter().map(|name| activation(name)).collect();
        let mut spec = model.t5.spec().clone();
        let encoder = spec.encoder.as_mut().expect("a T5 has an encoder");
        encoder.dims.mlp_activations.clone_from(&activations);
        spec.last.dims.mlp_activations.clone_from(&activations);
        let params = match activations.len() {
            1 => with_one_projection(&model.params),
            _ => Params::from_tensors(
                model
                    .params
                    .iter()
                    .map(|(name, tensor)| (name.to_string(), tensor.shallow_clone())),
            ),
        };
        let logits = T5::new(spec).logits(&params, &batch, Dropout::off());
        let last = logits.get(0).get(-1).to_kind(Kind::Double);
        let expected: Vec<f64> = serde_json::from_value(case["logits"].clone()).expect("numbers");
        let error = (last - Tensor::from_slice(&expected)).abs().max().double_value(&[]);
        assert!(error < 2e-5, "{}: {error}", case["mlp_activations"]);
    }
}

fn names(case: &Value) -> Vec<String> {
    serde_json::from_value(case["mlp_activations"].clone()).expect("names")
}

fn activation(name: &str) -> Activation {
    *ACTIVATIONS.iter().find(|activation| activation.as_str() == name).expect("a known name")
}

/// The parameters of blocks whose only input projection is the first.
fn with_one_projection(params: &Params) -> Params {
    let kept = params.iter().filter(|(name, _)| !name.contains("/wi_1/"));
    Params::from_tensors(
        kept.map(|(name, tensor)| (name.replace("/wi_0/", "/wi/"), tensor.shallow_clone())),
    )
}
