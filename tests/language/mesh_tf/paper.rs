//! The configurations of the T5 paper: each file of `runs/t5_paper` has the values of the operative configuration of
//! its row (make_paper.py).

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use gimlet::run::{Translated, translate_mesh_tf};
use serde_json::{Value, json};

use super::{file, values};

/// The module of objectives.
const OBJECTIVE: &str = "t5.data.preprocessors.";

/// The parameter that chooses the noise of an objective.
const MASK: &str = "t5.data.preprocessors.denoise.noise_mask_fn";

/// Values of runs by the name of the run, completed by those that most have.
fn paper() -> BTreeMap<String, BTreeMap<String, Value>> {
    let text = fs::read_to_string(file("paper.json")).expect("made by make_paper.py");
    let json: Value = serde_json::from_str(&text).expect("it is JSON");
    let map = |value: &Value| -> BTreeMap<String, Value> {
        value.as_object().expect("a dict").clone().into_iter().collect()
    };
    let base = map(&json["base"]);
    let complete = |(name, run): (String, Value)| {
        let mut values = base.clone();
        values.extend(map(&run));
        (name, values)
    };
    map(&json["runs"]).into_iter().map(complete).collect()
}

/// Translates the files of a run in the order that README.md says.
fn translated(name: &str) -> Translated {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("runs/t5_paper");
    let parts: Vec<&str> = name.split('/').collect();
    let row = parts[..2].join("/");
    let mut files = vec![format!("{row}.gin")];
    if let Some(task) = parts.get(2) {
        files.push(format!("finetune/{}.gin", task.trim_start_matches("old_")));
        let adapter = format!("{row}.finetune.gin");
        files.extend(root.join(&adapter).exists().then_some(adapter));
    }
    let files = files.iter().map(|file| format!("--gin_file={}", root.join(file).display()));
    let params = ["tpu_topology = 'v3-8'", "init_checkpoint = '/pretrained/model.ckpt-524288'"];
    let params = params.map(|param| format!("--gin_param={param}"));
    let words: Vec<String> = files.chain(params).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    translate_mesh_tf(&words).unwrap_or_else(|failure| panic!("{name}\n{failure}"))
}

/// Statements of a translation, read as JSON.
struct Found(BTreeMap<String, String>);

impl Found {
    fn get(&self, key: &str) -> Value {
        self.0.get(key).map_or(Value::Null, |text| literal(text))
    }

    fn is_lm(&self) -> bool {
        !self.0.contains_key("t5x.examples.t5.network.T5Config.emb_dim")
    }

    fn dim(&self, name: &str) -> Value {
        let config = match self.is_lm() {
            true => "t5x.examples.decoder_only.network.TransformerConfig",
            false => "t5x.examples.t5.network.T5Config",
        };
        self.get(&format!("{config}.{name}"))
    }

    fn schedule(&self) -> Value {
        let get =
            |name: &str| self.get(&format!("t5x.utils.create_learning_rate_scheduler.{name}"));
        match get("factors") == json!("constant") {
            true => json!(["constant", get("base_learning_rate")]),
            false => {
                let rest = ["base_learning_rate", "warmup_steps", "step_offset"].map(get);
                json!([&[json!("noam")][..], &rest].concat())
            }
        }
    }

    /// The values of the run and its model in the form of paper.json.
    fn of_run(&self) -> BTreeMap<String, Value> {
        let layers = if self.is_lm() { "num_layers" } else { "num_decoder_layers" };
        let full = self.get("t5x.models.DecoderOnlyModel.inputs_bidirectional_attention");
        let lengths = self.0["TASK_FEATURE_LENGTHS"].replace('\'', "\"");
        let lengths: Value = serde_json::from_str(&lengths).expect("a dict");
        let filter = "flax.traverse_util.ModelParamTraversal.mesh_variable_filter";
        let values = [
            ("model", json!(if self.is_lm() { "lm" } else { "bitransformer" })),
            ("emb_dim", self.dim("emb_dim")),
            ("mlp_dim", self.dim("mlp_dim")),
            ("num_heads", self.dim("num_heads")),
            ("head_dim", self.dim("head_dim")),
            ("num_layers", self.dim(layers)),
            ("adapter_dim", self.dim("adapter_dim")),
            ("shared", json!(self.dim("tie_encoder_decoder") == json!(true))),
            ("input_full_attention", json!(full == json!(true))),
            ("dropout_rate", self.get("DROPOUT_RATE")),
            ("z_loss", self.get("Z_LOSS")),
            ("mixture", self.get("MIXTURE_OR_TASK_NAME")),
            ("lengths", json!([lengths["inputs"], lengths["targets"]])),
            ("batch", self.get("BATCH_SIZE")),
            ("microbatches", self.get("t5x.trainer.Trainer.num_microbatches")),
            ("steps", self.get("TRAIN_STEPS")),
            ("save_period", self.get("t5x.utils.SaveCheckpointConfig.period")),
            ("restores", json!(self.0.contains_key("t5x.utils.RestoreCheckpointConfig.path"))),
            ("variable_filter", self.get(filter)),
            ("learning_rate", self.schedule()),
        ];
        values.map(|(key, value)| (key.to_string(), value)).into_iter().collect()
    }

    /// The values of tasks' configurables, by names without modules; macros are replaced.
    fn of_tasks(&self) -> BTreeMap<String, Value> {
        let named = |(key, text): (&String, &String)| {
            let rate = || key.strip_prefix("t5.data.").filter(|key| key.starts_with("rate_"));
            let key = key.strip_prefix(OBJECTIVE).or_else(rate)?;
            let text = match text.strip_prefix('%') {
                Some(name) => self.0.get(name)?,
                None => text,
            };
            // The lengths of spans are among the run's values; regular spans have no mean.
            let is_spans =
                self.0.get(MASK).is_some_and(|mask| mask.ends_with("random_spans_noise_mask"));
            let has_effect = !key.starts_with("random_spans_helper")
                && (is_spans || !key.starts_with("random_spans_noise_mask"));
            has_effect.then(|| (key.to_string(), short(text)))
        };
        self.0.iter().filter_map(named).collect()
    }
}

fn literal(text: &str) -> Value {
    match text {
        "None" => Value::Null,
        "True" => json!(true),
        "False" => json!(false),
        text if text.starts_with('\'') => json!(text.trim_matches('\'')),
        text => serde_json::from_str(text).unwrap_or(json!(text)),
    }
}

/// Reads a value whose references have no modules.
fn short(text: &str) -> Value {
    let last =
        |item: &str| item.trim_start_matches('@').rsplit('.').next().map(|it| format!("@{it}"));
    match text {
        list if list.starts_with('[') => {
            json!(list.trim_matches(['[', ']']).split(", ").map(last).collect::<Vec<_>>())
        }
        reference if reference.starts_with('@') => json!(last(reference)),
        _ => literal(text),
    }
}

/// The values of a translation in the form of paper.json.
fn effective(translated: &Translated) -> BTreeMap<String, Value> {
    let found = Found(values(translated));
    found.of_run().into_iter().chain(found.of_tasks()).collect()
}

/// Compares a run with the paper's.
fn differences(name: &str, expected: &BTreeMap<String, Value>) -> Vec<String> {
    let mut found = effective(&translated(name));
    // A fine-tuning does not read what a row binds for its pretraining.
    let is_finetuning = name.split('/').count() > 2;
    found.retain(|key, _| !is_finetuning || !key.contains('.'));
    let of =
        |values: &BTreeMap<String, Value>, key: &str| values.get(key).cloned().unwrap_or_default();
    let keys: BTreeSet<&String> = found.keys().chain(expected.keys()).collect();
    let differ = keys.into_iter().filter(|key| of(&found, key) != of(expected, key));
    let line = |key: &String| {
        format!("{name} {key}: {} instead of {}", of(&found, key), of(expected, key))
    };
    differ.map(line).collect()
}

/// Runs that cannot be repeated: their mixture is public nowhere.
fn is_public(name: &str) -> bool {
    !name.starts_with("datasets/ds-wikibook")
}

#[test]
fn each_kind_of_row_has_the_values_of_its_operative_configuration() {
    let paper = paper();
    assert_eq!(paper.keys().filter(|name| is_public(name)).count(), 512);
    let mut seen = BTreeSet::new();
    let mut found = Vec::new();
    // Every pretraining, and one fine-tuning of each task.
    for (name, expected) in paper.iter().filter(|(name, _)| is_public(name)) {
        let task = name.split('/').nth(2);
        if task.is_none_or(|task| seen.insert(task.to_string())) {
            found.extend(differences(name, expected));
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
#[ignore = "takes a minute: 512 configurations"]
fn each_row_and_fine_tuning_has_the_values_of_its_operative_configuration() {
    let found = paper()
        .iter()
        .filter(|(name, _)| is_public(name))
        .flat_map(|(name, expected)| differences(name, expected))
        .collect::<Vec<_>>();
    assert!(found.is_empty(), "{}", found.join("\n"));
}
