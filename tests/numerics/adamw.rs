//! AdamW, alone and after clips, equals optax's, step by step, and its state has T5X's names.
//!
//! Reference: `adamw.json`, made by `adamw.py` from optax itself in float32. Tolerance: each
//! element to 2e-5 of its array's root mean square or of itself; a first moment in bfloat16 to one
//! of its places.

use std::collections::BTreeMap;

use gimlet::nn::{Params, StateDtype};
use gimlet::optim::{
    AdamParameters, AdamW, Chain, Clip, ClipByGlobalNorm, Gradient, Incoming, LearningRate,
    OptaxRule, Optimizer, OptimizerDef, ParamShape, Sgd, Transformation, Watch,
};
use gimlet::schedule::{Schedule, WarmupCosineDecaySchedule};
use serde_json::Value;
use tch::{Device, Kind, Tensor};

use crate::adafactor::{check_array, noise};

fn reference() -> Value {
    serde_json::from_str(include_str!("adamw.json")).unwrap()
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap()
}

fn cosine(spec: &Value) -> WarmupCosineDecaySchedule {
    WarmupCosineDecaySchedule {
        init_value: number(&spec["init_value"]),
        peak_value: number(&spec["peak_value"]),
        warmup_steps: spec["warmup_steps"].as_i64().unwrap(),
        decay_steps: spec["decay_steps"].as_i64().unwrap(),
        end_value: number(&spec["end_value"]),
        exponent: spec.get("exponent").map_or(1.0, number),
    }
}

/// Optax's defaults.
fn defaults() -> AdamW {
    AdamW {
        adam: AdamParameters {
            learning_rate: LearningRate::Constant(0.01),
            b1: 0.9,
            b2: 0.999,
            eps: 1e-8,
            eps_root: 0.0,
            mu_dtype: None,
        },
        weight_decay: 1e-4,
        mask: None,
        nesterov: false,
    }
}

fn rule(adamw: AdamW) -> OptaxRule {
    OptaxRule::AdamW(adamw)
}

fn adamw(settings: &Value) -> AdamW {
    let mut spec = defaults();
    for (key, value) in settings.as_object().unwrap() {
        match key.as_str() {
            "learning_rate" if value.is_object() => {
                let schedule = Schedule::WarmupCosineDecay(cosine(value));
                spec.adam.learning_rate = LearningRate::Schedule(schedule);
            }
            "learning_rate" => spec.adam.learning_rate = LearningRate::Constant(number(value)),
            "b1" => spec.adam.b1 = number(value),
            "b2" => spec.adam.b2 = number(value),
            "eps" => spec.adam.eps = number(value),
            "eps_root" => spec.adam.eps_root = number(value),
            "weight_decay" => spec.weight_decay = number(value),
            "nesterov" => spec.nesterov = value.as_bool().unwrap(),
            "mu_dtype" => spec.adam.mu_dtype = Some(StateDtype::Bfloat16),
            other => panic!("the reference sets `{other}`, which this test does not know"),
        }
    }
    spec
}

fn def(case: &Value) -> OptimizerDef {
    let adamw = adamw(&case["settings"]);
    let Some(clips) = case["clips"].as_array() else { return rule(adamw).into() };
    let clip = |clip: &Value| match clip[0].as_str().unwrap() {
        "clip" => Transformation::Clip(Clip { max_delta: number(&clip[1]) }),
        _ => Transformation::ClipByGlobalNorm(ClipByGlobalNorm { max_norm: number(&clip[1]) }),
    };
    let transformations =
        clips.iter().map(clip).chain([Transformation::Rule(rule(adamw))]).collect();
    OptimizerDef::Chain(Chain { transformations })
}

pub fn shapes(reference: &Value) -> Vec<(String, Vec<usize>)> {
    let shape = |value: &Value| serde_json::from_value(value.clone()).unwrap();
    let shapes = reference["shapes"].as_object().unwrap().iter();
    shapes.map(|(name, value)| (name.clone(), shape(value))).collect()
}

pub fn optimizer(def: &OptimizerDef, shapes: &[(String, Vec<usize>)]) -> Optimizer {
    let params: Vec<ParamShape> =
        shapes.iter().map(|(name, shape)| ParamShape { name, shape, axes: &[] }).collect();
    Optimizer::new(def, &params, Device::Cpu).unwrap()
}

fn check_case(reference: &Value, case: &Value) {
    let (shapes, def) = (shapes(reference), def(case));
    let mut optimizer = optimizer(&def, &shapes);
    let named = |seed: u32| -> Vec<Tensor> {
        shapes.iter().enumerate().map(|(i, (_, shape))| noise(shape, seed + i as u32)).collect()
    };
    let weights = named(0);
    for (step, expected) in case["steps"].as_array().unwrap().iter().enumerate() {
        let scale = number(&reference["gradient_scales"][step]);
        let grads: Vec<Tensor> =
            named(100 * (step as u32 + 1)).into_iter().map(|grad| grad * scale).collect();
        let gradients: Vec<Gradient> = shapes
            .iter()
            .zip(weights.iter().zip(&grads))
            .map(|((name, _), (param, grad))| Gradient { name, param, grad })
            .collect();
        // The Trainer's learning rate has no effect.
        optimizer.apply(&gradients, 7.0, step as i64).unwrap();
        let mut found: BTreeMap<String, &Tensor> = optimizer.arrays().collect();
        found.extend(shapes.iter().zip(&weights).map(|((name, _), w)| (name.clone(), w)));
        let expected_arrays = expected["arrays"].as_object().unwrap();
        assert!(found.keys().eq(expected_arrays.keys()), "{}: {:?}", case["name"], found.keys());
        for (name, array) in expected_arrays {
            let narrow = found[name].kind() == Kind::BFloat16;
            let tolerance = if narrow { 1.0 / 128.0 } else { 2e-5 };
            let place = format!("{} step {step} {name}", case["name"]);
            check_array(&place, found[name], array, tolerance);
        }
        let (count, paths) = optimizer.counts();
        let counts = expected["counts"].as_object().unwrap();
        assert!(paths.iter().eq(counts.keys()), "{}: {paths:?}", case["name"]);
        assert!(counts.values().all(|expected| expected.as_i64() == Some(count)));
    }
}

#[test]
fn every_setting_equals_optax_step_by_step() {
    let reference = reference();
    let cases = reference["cases"].as_array().unwrap();
    assert_eq!(cases.len(), 9);
    for case in cases {
        check_case(&reference, case);
    }
}

#[test]
fn the_cosine_schedule_equals_optax() {
    for case in reference()["schedules"].as_array().unwrap() {
        let schedule = cosine(&case["spec"]).build().unwrap();
        for (step, expected) in case["rates"].as_array().unwrap().iter().enumerate() {
            let (found, expected) = (f64::from(schedule.at(step as i64)), number(expected));
            assert!((found - expected).abs() <= 1e-6 * expected, "{step}: {found}, {expected}");
        }
    }
}

#[test]
fn a_chain_that_does_not_end_in_an_optimizer_is_refused() {
    let clip = Transformation::Clip(Clip { max_delta: 1.0 });
    for transformations in
        [vec![], vec![clip.clone()], vec![Transformation::Rule(rule(defaults())), clip]]
    {
        let def = OptimizerDef::Chain(Chain { transformations });
        let shape = ParamShape { name: "x", shape: &[4], axes: &["embed"] };
        let error = Optimizer::new(&def, &[shape], Device::Cpu).unwrap_err();
        assert!(error.to_string().contains("then one optimizer of optax"), "{error}");
    }
}

/// Weights and state after two steps of a small sum, updated inside the backward pass or after it.
fn two_steps(def: &OptimizerDef, inside: bool) -> Vec<Tensor> {
    let shapes =
        [("a".to_string(), vec![24, 16]), ("b".to_string(), vec![16]), ("c".to_string(), vec![3])];
    let mut optimizer = optimizer(def, &shapes);
    let tensors = shapes.iter().map(|(name, shape)| (name.clone(), noise(shape, 1)));
    let params = Params::from_tensors(tensors);
    for step in 0..2 {
        let (a, b) = (params.get("a"), params.get("b"));
        // Nothing depends on `c`.
        let loss = (noise(&[8, 24], 5).matmul(a) + b).square().sum(Kind::Float);
        match inside {
            true => optimizer
                .update(&params, 0.1, step, &mut Watch::default(), Incoming::default(), || {
                    loss.backward()
                })
                .map(drop)
                .unwrap(),
            false => {
                let grads = params.gradients(&loss);
                let named = params.iter().zip(&grads);
                let named: Vec<_> =
                    named.map(|((name, param), grad)| Gradient { name, param, grad }).collect();
                optimizer.apply(&named, 0.1, step).unwrap();
            }
        }
        assert!(params.iter().all(|(_, param)| !param.grad().defined() || !inside));
    }
    let arrays = optimizer.arrays().map(|(_, array)| array.copy());
    let weights = params.iter().map(|(_, param)| param.detach().copy());
    arrays.chain(weights).collect()
}

#[test]
fn updates_inside_the_backward_pass_are_those_after_it() {
    let clip = Transformation::ClipByGlobalNorm(ClipByGlobalNorm { max_norm: 0.5 });
    let learning_rate = LearningRate::Constant(0.01);
    let sgd = Sgd { learning_rate, momentum: Some(0.9), nesterov: true, accumulator_dtype: None };
    let chain = Chain { transformations: vec![clip, Transformation::Rule(rule(defaults()))] };
    for def in [
        OptimizerDef::Adafactor(gimlet::optim::Adafactor::default()),
        rule(defaults()).into(),
        OptaxRule::Sgd(sgd).into(),
        OptimizerDef::Chain(chain),
    ] {
        let (inside, after) = (two_steps(&def, true), two_steps(&def, false));
        assert!(
            inside.iter().zip(&after).all(|(found, expected)| found.equal(expected)),
            "{def:?}"
        );
    }
}
