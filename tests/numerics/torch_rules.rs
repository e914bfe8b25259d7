//! The optimizers of `torch.optim` equal torch's, step by step, and their state has torch's names; so does nanoT5's. Gin gives them, so
//! names and defaults are compared too.
//!
//! References: `torch_rules.json`, made by `torch_rules.py` from torch itself in float32, and `adamw_scale.json`, made by
//! `adamw_scale.py` from nanoT5's own optimizer. Tolerance: each element to 2e-6 of its array's root mean square or of itself, float32
//! against float32.

use std::collections::BTreeMap;

use gimlet::optim::{Chain, Gradient, OptimizerDef, Transformation};
use serde_json::Value;
use tch::Tensor;

use crate::adafactor::{check_array, noise};
use crate::adamw::{optimizer, shapes};
use crate::optax_rules::{evaluated, gin};

const TOLERANCE: f64 = 2e-6;

fn def(module: &str, case: &Value) -> OptimizerDef {
    let name = case["optimizer"].as_str().unwrap();
    let mut text = format!(
        "from __gin__ import dynamic_registration\nimport {module}\nfrom t5x import optimizers\n\
         optimizers.chain.transformations = [@{module}.{name}()]\n"
    );
    for (key, value) in case["settings"].as_object().unwrap() {
        text += &format!("{module}.{name}.{key} = {}\n", gin(value));
    }
    match evaluated::<Chain>(&text).transformations.pop() {
        Some(Transformation::Rule(rule)) => rule.into(),
        other => panic!("{name} is no optimizer: {other:?}"),
    }
}

fn check_case(module: &str, reference: &Value, case: &Value) {
    let shapes = shapes(reference);
    let mut optimizer = optimizer(&def(module, case), &shapes);
    let named = |seed: u32| -> Vec<Tensor> {
        shapes.iter().enumerate().map(|(i, (_, shape))| noise(shape, seed + i as u32)).collect()
    };
    let mut weights = named(0);
    let still = shapes.iter().position(|(name, _)| name == "still").unwrap();
    let _ = weights[still].zero_();
    for (step, expected) in case["steps"].as_array().unwrap().iter().enumerate() {
        let scale = reference["gradient_scales"][step].as_f64().unwrap();
        let grads: Vec<Tensor> =
            named(100 * (step as u32 + 1)).into_iter().map(|grad| grad * scale).collect();
        let given = shapes.iter().zip(weights.iter().zip(&grads));
        let gradients: Vec<Gradient> =
            given.map(|((name, _), (param, grad))| Gradient { name, param, grad }).collect();
        // The Trainer's learning rate has no effect.
        optimizer.apply(&gradients, 7.0, step as i64).unwrap();
        let mut found: BTreeMap<String, &Tensor> = optimizer.arrays().collect();
        found.extend(shapes.iter().zip(&weights).map(|((name, _), w)| (name.clone(), w)));
        let place = format!("{} {} step {step}", case["optimizer"], case["settings"]);
        let expected: BTreeMap<&String, &Value> = expected.as_object().unwrap().iter().collect();
        assert!(found.keys().eq(expected.keys().copied()), "{place}: {:?}", found.keys());
        for (name, array) in expected {
            check_array(&format!("{place} {name}"), found[name], array, TOLERANCE);
        }
        assert_eq!(optimizer.counts(), (step as i64 + 1, vec!["count".to_string()]), "{place}");
    }
}

fn check(module: &str, reference: &str) {
    let reference: Value = serde_json::from_str(reference).unwrap();
    for case in reference["cases"].as_array().unwrap() {
        check_case(module, &reference, case);
    }
}

#[test]
fn every_optimizer_equals_torch_step_by_step() {
    check("torch.optim", include_str!("torch_rules.json"));
}

#[test]
fn adamw_with_root_mean_squares_equals_nanot5_step_by_step() {
    check("gimlet.optimizers", include_str!("adamw_scale.json"));
}
