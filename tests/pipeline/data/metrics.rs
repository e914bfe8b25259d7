//! Metrics and postprocessors compared with those of the t5 library (`reference/t5_metrics.py`).

use gimlet::data::{ExampleFeatures, Postprocessor};
use gimlet::gin::{Configurable, Evaluator, FromGin, Ref, Registry, Request, load};
use gimlet::metrics::MetricFn;
use gimlet::run::Library;
use serde_json::Value;

use super::reference_json;

#[derive(Debug, Configurable)]
#[gin(name = "tests.Metric")]
struct Metric {
    /// The metric.
    metric_fn: Ref<MetricFn>,
}

#[derive(Debug, Configurable)]
#[gin(name = "tests.Postprocess")]
struct Postprocess {
    /// The postprocessor.
    postprocess_fn: Postprocessor,
}

/// Evaluates a case in gin: its own bindings, and one that names the tested configurable.
fn configured<T: Configurable + FromGin>(case: &Value, binding: String) -> T {
    let lines =
        case["gin"].as_array().unwrap().iter().map(|line| line.as_str().unwrap().to_string());
    let bindings = lines.chain([binding]).map(|line| ("--gin".to_string(), line)).collect();
    let registry = Registry::default().with::<T>();
    let request = Request { bindings, ..Request::default() };
    let loaded = load(&request, &Library, &registry).map_err(|error| error.render(false)).unwrap();
    let mut evaluator = Evaluator::new(&loaded.config, &registry);
    let made = evaluator.evaluate_in::<T>("");
    assert_eq!(evaluator.into_diagnostics(), []);
    made.unwrap()
}

#[test]
fn metrics_equal_t5s() {
    let cases = reference_json("t5_metrics.json");
    cases.as_array().unwrap().iter().for_each(check_metric);
}

/// Made by `reference/multilingual_reference.py`.
#[test]
fn metrics_equal_those_of_mt5_and_closed_book_qa() {
    let cases = &reference_json("multilingual_metrics.json")["metrics"];
    cases.as_array().unwrap().iter().for_each(check_metric);
}

/// Made by `reference/edge_metrics.py`.
#[test]
fn metrics_and_numbers_equal_their_libraries_where_these_decide() {
    let cases = reference_json("edge_metrics.json");
    cases["metrics"].as_array().unwrap().iter().for_each(check_metric);
    for case in cases["postprocessors"].as_array().unwrap() {
        check_postprocessor(case, &ExampleFeatures::new());
    }
}

/// Made by `reference/t5_experiments_metrics.py`.
#[test]
fn metrics_of_fine_tuning_equal_those_of_t5_experiments() {
    let cases = reference_json("t5_experiments_metrics.json");
    cases["metrics"].as_array().unwrap().iter().for_each(check_metric);
    for case in cases["postprocessors"].as_array().unwrap() {
        check_postprocessor(case, &ExampleFeatures::new());
    }
}

#[test]
fn tokenizers_of_sacrebleu_that_are_missing_are_refused_with_the_reason() {
    let registry = Registry::default().with::<Metric>();
    for (name, reason) in [("ja-mecab", "splits with MeCab"), ("flores200", "that it downloads")] {
        let lines =
            ["Metric.metric_fn = @metrics.bleu".to_string(), format!("bleu.tokenizer = '{name}'")];
        let bindings = lines.map(|line| ("--gin".to_string(), line)).into();
        let request = Request { bindings, ..Request::default() };
        let found = load(&request, &Library, &registry).expect_err("it is refused").render(false);
        assert!(found.contains(name) && found.contains(reason), "{found}");
    }
}

fn check_metric(case: &Value) {
    let name = case["metric"].as_str().unwrap();
    let spec: Metric = configured(case, format!("Metric.metric_fn = @metrics.{name}"));
    let list = |key: &str| case[key].as_array().unwrap().clone();
    let found = spec.metric_fn.compute(&list("targets"), &list("predictions"));
    if case["values"].is_null() {
        found.expect_err("the library refuses it");
        return;
    }
    let found = found.unwrap_or_else(|error| panic!("{case}: {error}"));
    let expected = case["values"].as_object().unwrap();
    let keys: Vec<&String> = found.keys().collect();
    let mut expected_keys: Vec<&String> = expected.keys().collect();
    expected_keys.sort();
    assert_eq!(keys, expected_keys, "{case}");
    for (key, value) in expected {
        // NaN is null; sums in another order differ in the last digits, and t5 has probabilities in 32
        // bits.
        let expected = value.as_f64().unwrap_or(f64::NAN);
        let is_close = (found[key] - expected).abs() <= 1e-9 * expected.abs().max(1.0);
        let both_nan = found[key].is_nan() && expected.is_nan();
        assert!(is_close || both_nan, "{case}, {key}: {} is not {value}", found[key]);
    }
}

#[test]
fn the_bootstrap_of_rouge_is_near_the_mean_and_the_same_again() {
    let cases = reference_json("t5_metrics.json");
    let of_long_texts = |case: &&Value| {
        case["metric"] == "rouge_mean" && case["targets"].as_array().unwrap().len() == 4
    };
    let case = cases.as_array().unwrap().iter().find(of_long_texts).unwrap();
    let keys = "rouge.score_keys = ['rougeL', 'rougeLsum']".to_string();
    let list = |key: &str| case[key].as_array().unwrap().clone();
    let compute = || {
        let lines = serde_json::json!({"gin": [keys]});
        let spec: Metric = configured(&lines, "Metric.metric_fn = @metrics.rouge".to_string());
        spec.metric_fn.compute(&list("targets"), &list("predictions")).unwrap()
    };
    let found = compute();
    assert_eq!(found, compute());
    for (key, mean) in case["values"].as_object().unwrap() {
        // The median of means of four scores, which lie within 20 of each other.
        assert!((found[key] - mean.as_f64().unwrap()).abs() < 2.0, "{key}: {}", found[key]);
    }
}

#[test]
fn postprocessors_equal_t5s() {
    let cases = reference_json("t5_postprocessors.json");
    let (first, cases) = cases.as_array().unwrap().split_first().unwrap();
    let example: &ExampleFeatures = first["example"].as_object().unwrap();
    cases.iter().for_each(|case| check_postprocessor(case, example));
}

/// Made by `reference/multilingual_reference.py`.
#[test]
fn postprocessors_equal_those_of_closed_book_qa() {
    for case in reference_json("multilingual_metrics.json")["postprocessors"].as_array().unwrap() {
        check_postprocessor(case, case["example"].as_object().unwrap());
    }
}

fn check_postprocessor(case: &Value, example: &ExampleFeatures) {
    let name = case["postprocessor"].as_str().unwrap();
    let binding = format!("Postprocess.postprocess_fn = @postprocessors.{name}()");
    let spec: Postprocess = configured(case, binding);
    let text = case["text"].as_str().unwrap();
    let is_target = case["is_target"].as_bool().unwrap();
    let found = spec.postprocess_fn.apply(text, example, is_target).unwrap();
    assert_eq!(found, case["value"], "{case}");
}

#[test]
fn a_feature_that_a_postprocessor_needs_is_named() {
    let case = serde_json::json!({"gin": []});
    let spec: Postprocess =
        configured(&case, "Postprocess.postprocess_fn = @postprocessors.qa()".to_string());
    let example = ExampleFeatures::from_iter([("inputs".to_string(), Value::Null)]);
    let error = spec.postprocess_fn.apply("x", &example, true).unwrap_err();
    assert_eq!(error, "the example lacks 'answers'; it has 'inputs'");
}
