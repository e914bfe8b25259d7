//! Adafactor equals T5X's, step by step.
//!
//! Reference: `adafactor.json`, made by `adafactor.py` from T5X's own code in float32. Tolerance: each
//! element to 2e-5 of its array's root mean square or of itself, float32 against float32 summed in
//! another order over four steps.

use std::collections::BTreeMap;

use gimlet::optim::{
    Adafactor, FactorRules, Gradient, NamedRules, Optimizer, OptimizerDef, ParamShape,
    StandardLogicalFactorRules,
};
use serde_json::Value;
use tch::{Device, Kind, Tensor};

const TOLERANCE: f64 = 2e-5;

/// Returns the hash of `adafactor.py` and `adamw.py`: uniform in [-0.5, 0.5), exact in float32.
pub fn noise(shape: &[usize], seed: u32) -> Tensor {
    let count: usize = shape.iter().product();
    let values: Vec<f32> = (0..count as u32)
        .map(|index| {
            let x = index.wrapping_add(seed.wrapping_mul(1_000_003));
            let x = (x ^ (x >> 16)).wrapping_mul(0x7FEB_352D);
            let x = (x ^ (x >> 15)).wrapping_mul(0x846C_A68B);
            ((x ^ (x >> 16)) >> 8) as f32 / (1 << 24) as f32 - 0.5
        })
        .collect();
    let sizes: Vec<i64> = shape.iter().map(|&size| size as i64).collect();
    Tensor::from_slice(&values).reshape(sizes)
}

struct Param {
    name: String,
    shape: Vec<usize>,
    axes: Vec<&'static str>,
}

fn params(case: &Value) -> Vec<Param> {
    let read = |(name, entry): (&String, &Value)| Param {
        name: name.clone(),
        shape: serde_json::from_value(entry[0].clone()).unwrap(),
        axes: serde_json::from_value::<Vec<String>>(entry[1].clone())
            .unwrap()
            .into_iter()
            .map(|axis| &*axis.leak())
            .collect(),
    };
    case["params"].as_object().unwrap().iter().map(read).collect()
}

fn spec(case: &Value) -> Adafactor {
    let mut spec = Adafactor::default();
    for (key, value) in case["settings"].as_object().unwrap() {
        match key.as_str() {
            "beta1" => spec.beta1 = value.as_f64(),
            "multiply_by_parameter_scale" => {
                spec.multiply_by_parameter_scale = value.as_bool().unwrap()
            }
            "clipping_threshold" => spec.clipping_threshold = value.as_f64(),
            "decay_rate" => spec.decay_rate = value.as_f64().unwrap(),
            "epsilon1" => spec.epsilon1 = value.as_f64().unwrap(),
            "epsilon2" => spec.epsilon2 = value.as_f64().unwrap(),
            "weight_decay_rate" => spec.weight_decay_rate = value.as_f64(),
            "weight_decay_rate_lr_exponent" => spec.weight_decay_rate_lr_exponent = value.as_f64(),
            "max_parameter_scale" => spec.max_parameter_scale = value.as_f64(),
            "global_norm_clip_threshold" => spec.global_norm_clip_threshold = value.as_f64(),
            "step_offset" => spec.step_offset = value.as_i64().unwrap(),
            "factored" => spec.factored = value.as_bool().unwrap(),
            "min_dim_size_to_factor" => {
                spec.min_dim_size_to_factor = value.as_u64().unwrap() as usize
            }
            "skip_nan_updates" => spec.skip_nan_updates = value.as_bool().unwrap(),
            other => panic!("the reference sets `{other}`, which this test does not know"),
        }
    }
    if case["name"].as_str().unwrap().starts_with("stacked") {
        spec.logical_factor_rules =
            Some(FactorRules::Named(NamedRules::Standard(StandardLogicalFactorRules)));
    }
    spec
}

fn flat(tensor: &Tensor) -> Vec<f64> {
    Vec::<f64>::try_from(tensor.to_kind(Kind::Double).reshape([-1])).unwrap()
}

/// Compares each sampled element, to `tolerance` of the array's root mean square or of itself.
pub fn check_array(place: &str, found: &Tensor, expected: &Value, tolerance: f64) {
    let shape: Vec<i64> = serde_json::from_value(expected["shape"].clone()).unwrap();
    assert_eq!(found.size(), shape, "{place}");
    let found = flat(found);
    let rms = (found.iter().map(|x| x * x).sum::<f64>() / found.len() as f64).sqrt();
    let expected_rms = expected["rms"].as_f64().unwrap();
    assert!((rms - expected_rms).abs() <= tolerance * expected_rms, "{place}: rms {rms}");
    let sampled = found.iter().step_by((found.len() / 8).max(1));
    for (index, (found, value)) in sampled.zip(expected["values"].as_array().unwrap()).enumerate() {
        let value = value.as_f64().unwrap();
        let error = (found - value).abs();
        assert!(
            error <= tolerance * expected_rms.max(value.abs()),
            "{place}, sample {index}: {found} is not {value}"
        );
    }
}

fn gradient(param: &Param, index: usize, step: usize, scale: f64, with_nan: bool) -> Tensor {
    let grad = noise(&param.shape, (100 * (step + 1) + index) as u32) * scale;
    if with_nan && !param.shape.is_empty() {
        let _ = grad.view([-1]).get(5).fill_(f64::NAN);
    }
    grad
}

/// Makes the steps of a case and compares parameters and state after each.
pub fn check_steps(def: &OptimizerDef, reference: &Value, case: &Value, tolerance: f64) {
    let params = params(case);
    let first_step = case["first_step"].as_i64().unwrap();
    let shapes: Vec<ParamShape> = params
        .iter()
        .map(|p| ParamShape { name: &p.name, shape: &p.shape, axes: &p.axes })
        .collect();
    let mut optimizer = Optimizer::new(def, &shapes, Device::Cpu).unwrap();
    let weights: Vec<Tensor> =
        params.iter().enumerate().map(|(i, p)| noise(&p.shape, i as u32)).collect();
    for (step, expected) in case["steps"].as_array().unwrap().iter().enumerate() {
        let scale = reference["gradient_scales"][step].as_f64().unwrap();
        let rate = reference["learning_rates"][step].as_f64().unwrap() as f32;
        let with_nan = def.skips_nan_updates() && step == 2;
        let grads: Vec<Tensor> =
            params.iter().enumerate().map(|(i, p)| gradient(p, i, step, scale, with_nan)).collect();
        let gradients: Vec<Gradient> = params
            .iter()
            .zip(&weights)
            .zip(&grads)
            .map(|((p, param), grad)| Gradient { name: &p.name, param, grad })
            .collect();
        optimizer.apply(&gradients, rate, first_step + step as i64).unwrap();
        let mut found: BTreeMap<String, &Tensor> = optimizer.arrays().collect();
        found.extend(params.iter().zip(&weights).map(|(p, weight)| (p.name.clone(), weight)));
        for (name, array) in expected.as_object().unwrap() {
            let place = format!("{} step {step} {name}", case["name"]);
            check_array(&place, found[name], array, tolerance);
        }
    }
}

#[test]
fn every_setting_equals_t5x_step_by_step() {
    let reference: Value = serde_json::from_str(include_str!("adafactor.json")).unwrap();
    let cases = reference["cases"].as_array().unwrap();
    assert_eq!(cases.len(), 15);
    for case in cases {
        check_steps(&OptimizerDef::Adafactor(spec(case)), &reference, case, TOLERANCE);
    }
}

/// One parameter, one update of ones at learning rate 0.1 as the second step; T5X's
/// `adafactor_test.py`.
fn second_step(spec: Adafactor, state: &[(&str, f64)]) -> (Optimizer, Tensor) {
    let def = OptimizerDef::Adafactor(spec);
    let shape = ParamShape { name: "x", shape: &[3, 2], axes: &["a", "b"] };
    let mut optimizer = Optimizer::new(&def, &[shape], Device::Cpu).unwrap();
    for (path, value) in state {
        let old = optimizer.arrays().find(|(name, _)| name == path).unwrap().1.full_like(*value);
        optimizer.restore(path, &old).unwrap();
    }
    let param = Tensor::ones([3, 2], (Kind::Float, Device::Cpu));
    let grad = param.ones_like();
    let gradient = Gradient { name: "x", param: &param, grad: &grad };
    optimizer.apply(&[gradient], 0.1, 1).unwrap();
    (optimizer, param)
}

fn assert_all(tensor: &Tensor, expected: f64) {
    for value in flat(tensor) {
        assert!((value - expected).abs() < 1e-6, "{value} is not {expected}");
    }
}

fn state_of<'a>(optimizer: &'a Optimizer, path: &str) -> &'a Tensor {
    optimizer.arrays().find(|(name, _)| name == path).unwrap().1
}

#[test]
fn the_factored_update_has_the_values_of_t5x_s_own_test() {
    let spec = Adafactor { min_dim_size_to_factor: 0, ..Adafactor::default() };
    let (optimizer, param) = second_step(spec, &[("x/v_row", 0.9), ("x/v_col", 0.1)]);
    assert_all(state_of(&optimizer, "x/v_row"), 0.9574349);
    assert_all(state_of(&optimizer, "x/v_col"), 0.6169143);
    assert_eq!(state_of(&optimizer, "x/v_row").size(), [2]);
    assert_all(&param, 0.9);
}

#[test]
fn the_unfactored_update_has_the_values_of_t5x_s_own_test() {
    let spec = Adafactor { min_dim_size_to_factor: 32, beta1: Some(0.0), ..Adafactor::default() };
    let (optimizer, param) = second_step(spec, &[("x/v", 0.5)]);
    assert_all(state_of(&optimizer, "x/v"), 0.787174);
    assert_all(state_of(&optimizer, "x/m"), 0.1);
    assert_all(&param, 0.9);
}

#[test]
fn an_undefined_gradient_is_a_gradient_of_zero() {
    let def = OptimizerDef::Adafactor(Adafactor::default());
    let shape = ParamShape { name: "x", shape: &[4], axes: &["embed"] };
    let mut optimizer = Optimizer::new(&def, &[shape], Device::Cpu).unwrap();
    let param = Tensor::ones([4], (Kind::Float, Device::Cpu)).set_requires_grad(true);
    let gradient = Gradient { name: "x", param: &param, grad: &param.grad() };
    optimizer.apply(&[gradient], 0.1, 0).unwrap();
    assert_all(&param, 1.0);
    assert!(param.is_leaf() && param.requires_grad());
}

#[test]
fn expanded_and_transposed_gradients_are_taken() {
    let def = OptimizerDef::Adafactor(Adafactor::default());
    let shape = ParamShape { name: "x", shape: &[4, 3], axes: &["embed", "mlp"] };
    let updated = |grad: &Tensor| {
        let mut optimizer = Optimizer::new(&def, &[shape], Device::Cpu).unwrap();
        let param = Tensor::ones([4, 3], (Kind::Float, Device::Cpu));
        optimizer.apply(&[Gradient { name: "x", param: &param, grad }], 0.1, 0).unwrap();
        flat(&param)
    };
    let ones = Tensor::ones([1, 1], (Kind::Float, Device::Cpu));
    assert_eq!(updated(&ones.expand([4, 3], false)), updated(&ones.repeat([4, 3])));
    let transposed = noise(&[3, 4], 1).transpose(0, 1);
    assert_eq!(updated(&transposed.shallow_clone()), updated(&transposed.contiguous()));
}

#[test]
fn a_step_before_the_offset_is_refused_and_changes_nothing() {
    let spec = Adafactor { step_offset: 10, ..Adafactor::default() };
    let def = OptimizerDef::Adafactor(spec);
    let shape = ParamShape { name: "x", shape: &[4], axes: &["embed"] };
    let mut optimizer = Optimizer::new(&def, &[shape], Device::Cpu).unwrap();
    let param = Tensor::ones([4], (Kind::Float, Device::Cpu));
    let gradient = Gradient { name: "x", param: &param, grad: &param.ones_like() };
    let message = optimizer.apply(&[gradient], 0.1, 9).unwrap_err().to_string();
    assert!(message.starts_with("step 9 lies before `adafactor.Adafactor.step_offset` (10)"));
    assert_all(&param, 1.0);
}

#[test]
fn state_of_another_shape_is_refused() {
    let def = OptimizerDef::Adafactor(Adafactor::default());
    let shape = ParamShape { name: "x", shape: &[4], axes: &["embed"] };
    let mut optimizer = Optimizer::new(&def, &[shape], Device::Cpu).unwrap();
    let message = optimizer.restore("x/v", &Tensor::zeros([1], (Kind::Float, Device::Cpu)));
    let message = message.unwrap_err().to_string();
    assert!(message.starts_with("optimizer state `x/v` has shape [1], expected [4]"), "{message}");
    assert!(optimizer.restore("y/v", &Tensor::zeros([4], (Kind::Float, Device::Cpu))).is_err());
}
