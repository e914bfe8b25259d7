//! Optax's optimizers, alone and after a clip, equal optax's, step by step, and their state has T5X's
//! names. Gin gives them, so names and defaults are compared too.
//!
//! Reference: `optax_rules.json`, made by `optax_rules.py` from optax itself in float32. Tolerance: each element to
//! 2e-6 of its array's root mean square or of itself, float32 against float32; `adam`'s and `lamb`'s to
//! 2e-5, since libtorch's kernel corrects means in float64; arrays in bfloat16 to one of its places.

use std::collections::BTreeMap;

use gimlet::gin::{Configurable, Evaluator, Request, load};
use gimlet::optim::{Amos, Chain, Dpsgd, Gradient, OptimizerDef, Refused, Transformation};
use gimlet::run::{Library, registry};
use serde_json::Value;
use tch::{Kind, Tensor};

use crate::adafactor::{check_array, noise};
use crate::adamw::{optimizer, shapes};

fn reference() -> Value {
    serde_json::from_str(include_str!("optax_rules.json")).unwrap()
}

/// Returns a value of JSON as gin writes it.
pub fn gin(value: &Value) -> String {
    match value {
        Value::Bool(true) => "True".to_string(),
        Value::Bool(false) => "False".to_string(),
        Value::Object(_) => "@optax.warmup_cosine_decay_schedule()".to_string(),
        other => other.to_string(),
    }
}

/// Returns the bindings of a case; optimizers alone have the names of T5X's wrappers.
fn bindings(case: &Value) -> String {
    let name = case["optimizer"].as_str().unwrap();
    let (module, before) = match case["clipped"].as_bool().unwrap() {
        true => ("optax", "@optax.clip_by_global_norm(), "),
        false => ("optimizers", ""),
    };
    let mut text = format!(
        "from __gin__ import dynamic_registration\nimport optax\nfrom t5x import optimizers\n\
         optax.clip_by_global_norm.max_norm = 0.5\n\
         optimizers.chain.transformations = [{before}@{module}.{name}()]\n"
    );
    for (key, value) in case["settings"].as_object().unwrap() {
        text += &format!("{module}.{name}.{key} = {}\n", gin(value));
        for (key, value) in value.as_object().into_iter().flatten() {
            text += &format!("optax.warmup_cosine_decay_schedule.{key} = {value}\n");
        }
    }
    text
}

/// Evaluates a configurable with these bindings.
pub fn evaluated<T: Configurable>(text: &str) -> T {
    let bindings = vec![("case".to_string(), text.to_string())];
    let request = Request { bindings, fragment: true, ..Request::default() };
    let registry = registry();
    let loaded = load(&request, &Library, &registry);
    let loaded = loaded.unwrap_or_else(|mistakes| panic!("{}", mistakes.render(false)));
    let mut evaluator = Evaluator::new(&loaded.config, &registry);
    let value = evaluator.evaluate_in::<T>("");
    value.unwrap_or_else(|_| panic!("{text}{:?}", evaluator.into_diagnostics()))
}

fn def(case: &Value) -> OptimizerDef {
    let mut chain: Chain = evaluated(&bindings(case));
    match (case["clipped"].as_bool().unwrap(), chain.transformations.pop()) {
        (false, Some(Transformation::Rule(rule))) => rule.into(),
        (_, last) => {
            chain.transformations.extend(last);
            chain.into()
        }
    }
}

fn tolerance(rule: &str, array: &Tensor) -> f64 {
    match rule {
        _ if array.kind() == Kind::BFloat16 => 1.0 / 128.0,
        "adam" | "lamb" => 2e-5,
        _ => 2e-6,
    }
}

fn check_case(reference: &Value, case: &Value) {
    let rule = case["optimizer"].as_str().unwrap();
    let shapes = shapes(reference);
    let def = def(case);
    let needs_all = case["clipped"] == true || rule == "noisy_sgd";
    assert_eq!(def.needs_all_gradients(), needs_all, "{rule}");
    let mut optimizer = optimizer(&def, &shapes);
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
        let expected_arrays = expected["arrays"].as_object().unwrap();
        let place = format!("{rule} {} step {step}", case["settings"]);
        assert!(found.keys().eq(expected_arrays.keys()), "{place}: {:?}", found.keys());
        for (name, array) in expected_arrays {
            check_array(
                &format!("{place} {name}"),
                found[name],
                array,
                tolerance(rule, found[name]),
            );
        }
        let (count, mut paths) = optimizer.counts();
        paths.sort();
        let counts = expected["counts"].as_object().unwrap();
        assert!(paths.iter().eq(counts.keys()), "{place}: {paths:?}");
        assert!(counts.values().all(|expected| expected.as_i64() == Some(count)), "{place}");
    }
}

#[test]
fn every_optimizer_equals_optax_step_by_step() {
    let reference = reference();
    let cases = reference["cases"].as_array().unwrap();
    assert_eq!(cases.len(), 32);
    for case in cases {
        check_case(&reference, case);
    }
}

#[test]
fn optimizers_that_do_not_exist_here_are_refused_by_name() {
    for (refused, name) in [
        (Refused::Amos(Amos), "`t5x.optimizers.amos` is not supported: "),
        (Refused::Dpsgd(Dpsgd), "`optax.contrib.dpsgd` is not supported: "),
    ] {
        let error = OptimizerDef::from(refused).check().unwrap_err().to_string();
        assert!(error.starts_with(name), "{error}");
    }
}
