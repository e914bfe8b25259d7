//! `TransformersAdafactor` equals transformers' `Adafactor`, step by step. Gin gives it, so names and
//! defaults are compared too.
//!
//! Reference: `transformers_adafactor.json`, made by `transformers_adafactor.py` from transformers itself in float32. Tolerance:
//! each element to 2e-6 of its array's root mean square or of itself, float32 against float32.

use gimlet::optim::{Gradient, Optimizer, OptimizerDef, ParamShape, TransformersAdafactor};
use serde_json::Value;
use tch::{Device, Kind, Tensor};

use crate::adafactor::check_steps;
use crate::optax_rules::{evaluated, gin};

const TOLERANCE: f64 = 2e-6;

/// Returns the optimizer of a case.
fn def(settings: &Value) -> OptimizerDef {
    let mut text = "from __gin__ import dynamic_registration\nfrom t5x import utils\n\
                    import gimlet.optimizers\n\
                    utils.create_learning_rate_scheduler.factors = 'constant * linear_warmup'\n"
        .to_string();
    for (key, value) in settings.as_object().unwrap() {
        text += &match key.as_str() {
            // transformers' `constant_with_warmup`.
            "warmup_steps" => format!(
                "utils.create_learning_rate_scheduler.warmup_steps = {value}\n\
                 utils.create_learning_rate_scheduler.base_learning_rate = {}\n\
                 gimlet.optimizers.TransformersAdafactor.lr = @utils.create_learning_rate_scheduler()\n",
                settings["lr"]
            ),
            "lr" if settings.get("warmup_steps").is_some() => continue,
            _ => format!("gimlet.optimizers.TransformersAdafactor.{key} = {}\n", gin(value)),
        };
    }
    evaluated::<TransformersAdafactor>(&text).into()
}

fn with(settings: &str) -> OptimizerDef {
    def(&serde_json::from_str(settings).unwrap())
}

#[test]
fn every_setting_equals_transformers_step_by_step() {
    let reference = include_str!("transformers_adafactor.json");
    let reference: Value = serde_json::from_str(reference).unwrap();
    let cases = reference["cases"].as_array().unwrap();
    assert_eq!(cases.len(), 7);
    for case in cases {
        check_steps(&def(&case["settings"]), &reference, case, TOLERANCE);
    }
}

#[test]
fn updates_are_counted_from_the_first_and_the_count_is_kept() {
    let shape = ParamShape { name: "x", shape: &[4], axes: &["embed"] };
    let param = Tensor::ones([4], (Kind::Float, Device::Cpu));
    let mut optimizer = Optimizer::new(&with("{}"), &[shape], Device::Cpu).unwrap();
    let gradient = Gradient { name: "x", param: &param, grad: &param.ones_like() };
    optimizer.apply(&[gradient], 7.0, 1000).unwrap();
    assert_eq!(optimizer.counts(), (1, vec!["count".to_string()]));
}

#[test]
fn settings_that_transformers_refuses_are_refused() {
    for (settings, expected) in [
        (r#"{"lr": 0.1}"#, "`lr` needs `relative_step = False`"),
        (
            r#"{"lr": 0.1, "relative_step": false, "warmup_init": true}"#,
            "`warmup_init` needs `relative_step = True`",
        ),
        (r#"{"relative_step": false}"#, "without `relative_step`, bind `lr`"),
    ] {
        let error = with(settings).check().unwrap_err().to_string();
        assert_eq!(error, format!("`gimlet.optimizers.TransformersAdafactor`: {expected}"));
    }
}
