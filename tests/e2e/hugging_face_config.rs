//! Scores and answers of one set of weights under many `config.json`, compared with transformers'. `make_cases.py` writes
//! the weights and the results.

use std::fs;
use std::ops::ControlFlow;
use std::path::Path;

use gimlet::gin::{Evaluator, Registry, Request, load};
use gimlet::interactive::{DecodingOptions, Engine, EngineParts, InteractiveModel, Text};
use gimlet::partition::{LocalDevice, Process};
use gimlet::run::{Library, registry};
use serde_json::Value;

use crate::command::{Train, sources};
use crate::folder::Folder;

const TEXT: &str = "who: Ana sold four";
const TARGET: &str = "green lamps";
const NUM_TOKENS: usize = 8;

#[test]
fn every_config_gives_transformers_scores_and_answers() {
    // Threads that wait for each other take most of the time where other tests run beside.
    tch::set_num_threads(1);
    let registry = registry();
    for version in ["4", "5"] {
        for case in cases(version) {
            let folder = Folder::new();
            write_model(&folder.path(""), &case);
            let (score, answer) = results(&folder.path(""), &registry);
            let expected = case["score"].as_f64().expect("a number");
            let name = &case["name"];
            assert!((score - expected).abs() < 1e-4, "{name}: {score}, transformers {expected}");
            assert_eq!(answer, case["answer"], "{name}");
        }
    }
}

#[test]
fn a_training_does_not_start_from_weights_of_other_facts() {
    let folder = Folder::new();
    let case = cases("5").into_iter().find(|case| case["name"] == "gated-silu");
    let mut case = case.expect("it is a case");
    case["config"]["layer_norm_epsilon"] = Value::from(1e-5);
    case["config"]["new_norm"] = Value::from(true);
    fs::create_dir(folder.path("hub")).expect("the folder can be written");
    write_model(&folder.path("hub"), &case);
    let train = |more: &[&str]| {
        let words =
            ["--gin_file=t5x/configs/runs/finetune.gin", "--gin_file=hub/config.json", "--dry_run"];
        let model = "--gin.INITIAL_CHECKPOINT_PATH='hub'";
        let words = words
            .iter()
            .chain(more)
            .fold(Train::new(&folder.path("")), |train, word| train.arg(*word));
        let named =
            words.arg(model).bind_text("MODEL_DIR", "out").bind_text("MIXTURE_OR_TASK_NAME", "x");
        named.bind("TRAIN_STEPS", 1).run()
    };
    let other = train(&[
        "--gin.network.T5Config.mlp_activations=('gelu', 'linear')",
        "--gin.network.T5Config.layer_norm_epsilon=1e-6",
    ]);
    for part in [
        "checkpoint `hub` holds another model: hub/config.json stands for \
         network.T5Config.mlp_activations = ('silu', 'linear'), and the run has ('gelu', 'linear'); \
         network.T5Config.layer_norm_epsilon = 0.00001, and the run has 0.000001; bind these values",
        "warning: hub/config.json: the key `new_norm` is not known",
    ] {
        assert!(other.stderr.contains(part), "{}", other.stderr);
    }
    let same = train(&[]);
    assert!(!same.stderr.contains("holds another model"), "{}", same.stderr);
}

fn cases(version: &str) -> Vec<Value> {
    let file = sources("hugging_face/config").join(format!("cases_{version}.json"));
    let text = fs::read_to_string(file).expect("it is committed");
    serde_json::from_str(&text).expect("JSON")
}

/// Writes the folder of a model.
fn write_model(folder: &Path, case: &Value) {
    let weights = case["weights"].as_str().expect("a name");
    let weights = sources("hugging_face/config").join(format!("{weights}.safetensors"));
    fs::copy(weights, folder.join("model.safetensors")).expect("the folder can be written");
    let tokenizer = r#"{"tokenizer_class": "ByT5Tokenizer", "extra_ids": 0}"#;
    let texts = [
        ("config.json", case["config"].to_string()),
        ("tokenizer_config.json", tokenizer.to_string()),
    ];
    for (name, text) in texts {
        fs::write(folder.join(name), text).expect("the folder can be written");
    }
}

/// The score of the target, and the answer.
fn results(folder: &Path, registry: &Registry) -> (f64, String) {
    let spec = model(folder, registry);
    let parts = EngineParts::restore(&spec, &spec.mesh(Process::ALONE, LocalDevice::Cpu));
    let parts = parts.expect("the checkpoint is the model's");
    let engine = Engine::new(&spec, &parts, 1).expect("there is memory");
    let text = Text { inputs: TEXT.to_string(), targets: Some(TARGET.to_string()) };
    let asked = engine.encoder().encode(&text);
    let scores = engine.score(&[&asked]).expect("libtorch works");
    let options = DecodingOptions { max_tokens: Some(NUM_TOKENS), ..DecodingOptions::default() };
    let decoding = engine.decoding(&options).expect("the options fit");
    let answers = engine.generate(&[&asked], &decoding, &mut |_| ControlFlow::Continue(()));
    (scores[0], answers.expect("libtorch works")[0][0].text.clone())
}

fn model(folder: &Path, registry: &Registry) -> InteractiveModel {
    let files = [
        "t5x/configs/runs/interactive_model.gin".to_string(),
        folder.join("config.json").display().to_string(),
    ];
    let checkpoint = format!("CHECKPOINT_PATH = '{}'", folder.display());
    let bindings = vec![("flag".to_string(), checkpoint)];
    let request = Request { files: files.to_vec(), bindings, ..Request::default() };
    let loaded =
        load(&request, &Library, registry).unwrap_or_else(|list| panic!("{}", list.render(false)));
    let mut evaluator = Evaluator::new(&loaded.config, registry);
    let spec = evaluator.evaluate_in::<InteractiveModel>("");
    let spec = spec.unwrap_or_else(|_| panic!("{:?}", evaluator.into_diagnostics()));
    spec.check().expect("the model is possible");
    spec
}
