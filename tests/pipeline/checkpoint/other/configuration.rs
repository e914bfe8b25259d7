//! The `config.json` that `gimlet checkpoint convert` writes describes the model.

use gimlet::checkpoint::Writer;
use gimlet::models::open;
use gimlet::storage::Path;
use serde_json::{Map, Value, json};

use super::opened;
use crate::checkpoint::tool::gimlet;
use crate::checkpoint::{copy_files, fixture, names, scratch};

const KERNELS: [&str; 2] = ["wi_0", "wi_1"];

/// Writes the arrays of a fixture as a run does, with the run's config.gin beside them.
fn run(dir: &Path, family: &str, config: &str) -> Path {
    let model = opened(&format!("hugging_face/{family}"));
    let writer = Writer::create(dir, 0, None).unwrap();
    for leaf in model.leaves() {
        writer.array(leaf.name, model.read(leaf.name).unwrap().view()).unwrap();
    }
    let checkpoint = writer.commit().unwrap();
    if !config.is_empty() {
        dir.join("config.gin").write_atomic(config.as_bytes()).unwrap();
    }
    checkpoint
}

/// A run of a model with these activations.
fn gin(activations: &str) -> String {
    format!(
        "from __gin__ import dynamic_registration\n\
         import seqio\n\
         from t5x.examples.t5 import network\n\
         include 't5x/examples/t5/t5_1_1/tiny.gin'\n\
         DROPOUT_RATE = 0.1\n\
         VOCABULARY = @seqio.ByteVocabulary()\n\
         network.T5Config.num_heads = 2\n\
         network.T5Config.mlp_activations = {activations}\n"
    )
}

fn json_of(file: &Path) -> Map<String, Value> {
    serde_json::from_slice(&file.read().unwrap()).unwrap()
}

fn convert(dir: &Path, from: &Path, to: &str, flags: &[&str]) -> (i32, String) {
    let to = dir.join(to);
    let words = [&["convert", from.as_str(), to.as_str(), "--to=hugging_face"], flags].concat();
    let (status, _, error) = gimlet(dir, &words);
    (status, error)
}

#[test]
fn activations_of_a_run_are_written_as_transformers_call_them() {
    let (_dir, dir) = scratch();
    let alone = [
        ("('relu',)", "relu"),
        ("('gelu',)", "gelu_new"),
        ("('linear',)", "linear"),
        ("('silu',)", "silu"),
    ];
    let gated = [
        ("('gelu', 'linear')", "gated-gelu"),
        ("('silu', 'linear')", "gated-silu"),
        ("('swish', 'linear')", "gated-swish"),
        ("('relu', 'linear')", "gated-relu"),
        ("('sigmoid', 'linear')", "gated-sigmoid"),
        ("('linear', 'gelu')", "gated-gelu"),
    ];
    let cases = alone.map(|case| ("t5", case)).into_iter();
    for (family, (activations, proj)) in cases.chain(gated.map(|case| ("t5_1_1", case))) {
        let case =
            dir.join(&format!("{family}_{}", activations.replace(['\'', '(', ')', ' '], "")));
        let tied =
            if family == "t5" { "network.T5Config.logits_via_embedding = True\n" } else { "" };
        let from = run(&case, family, &(gin(activations) + tied));
        let (status, error) = convert(&case, &from, "out", &[]);
        assert_eq!(status, 0, "{activations}: {error}");
        assert!(!error.contains("usual models"), "{error}");
        let config = json_of(&case.join("out/config.json"));
        assert_eq!(config["feed_forward_proj"], proj, "{activations}");
        if family == "t5" {
            continue;
        }
        // The two projections change places if the second one has the function.
        let (ours, theirs) = (open(&from).unwrap(), open(&case.join("out")).unwrap());
        for (at, kernel) in KERNELS.iter().enumerate() {
            let other = if activations == "('linear', 'gelu')" { KERNELS[1 - at] } else { kernel };
            let array = |kernel: &str| format!("target/decoder/layers_0/mlp/{kernel}/kernel");
            let found = theirs.read(&array(other)).unwrap();
            assert_eq!(ours.read(&array(kernel)).unwrap(), found, "{activations}: {kernel}");
        }
    }
}

#[test]
fn an_epsilon_and_ids_of_a_run_are_written() {
    let (_dir, dir) = scratch();
    let own = "from t5x import models\n\
               network.T5Config.layer_norm_epsilon = 1e-5\n\
               models.EncoderDecoderModel.bos_id = 5\n\
               models.EncoderDecoderModel.eos_id = 2\n";
    let from = run(&dir.join("run"), "t5_1_1", &(gin("('gelu', 'linear')") + own));
    let (status, error) = convert(&dir, &from, "out", &[]);
    assert_eq!(status, 0, "{error}");
    let config = json_of(&dir.join("out/config.json"));
    assert_eq!(config["layer_norm_epsilon"], json!(1e-5));
    for file in ["out/config.json", "out/generation_config.json"] {
        let written = json_of(&dir.join(file));
        let ids =
            ["decoder_start_token_id", "eos_token_id", "pad_token_id"].map(|key| &written[key]);
        assert_eq!(ids, [&json!(5), &json!(2), &json!(0)], "{file}");
    }
}

#[test]
fn a_model_that_transformers_lacks_is_refused_by_name() {
    let (_dir, dir) = scratch();
    let from = run(&dir.join("run"), "t5_1_1", "");
    let refused = |name: &str, config: &str, part: &str| {
        dir.join("run/config.gin").write_atomic(config.as_bytes()).unwrap();
        let (status, error) = convert(&dir, &from, "out", &[]);
        assert!(status == 2 && error.contains(part), "{name}: {error}");
        assert!(!dir.join("out").exists().unwrap(), "{name}");
    };
    refused("no elu", &gin("('elu', 'linear')"), "of 'elu' transformers has no equal");
    refused("two functions", &gin("('gelu', 'gelu')"), "('gelu', 'gelu')");
    refused(
        "another model's",
        &gin("('relu',)"),
        "two input projections, and the configuration says",
    );
    let scaled = gin("('gelu', 'linear')") + "network.T5Config.scale_attn_logits = True\n";
    refused("scaled", &scaled, "scale_attn_logits = True");
    let memory = gin("('gelu', 'linear')") + "network.T5Config.num_memory_tokens = 2\n";
    refused("memory", &memory, "memory tokens (num_memory_tokens)");
    let heads = gin("('gelu', 'linear')") + "network.T5Config.num_cdq_heads = 2\n";
    refused("heads", &heads, "queries depend on the row (num_cdq_heads)");
    let tied = gin("('gelu', 'linear')") + "network.T5Config.logits_via_embedding = True\n";
    refused("tied", &tied, "the arrays have a head of their own");
}

#[test]
fn without_a_configuration_the_assumption_is_said_once() {
    let (_dir, dir) = scratch();
    let from = run(&dir.join("run"), "t5_1_1", "");
    let (status, error) = convert(&dir, &from, "out", &[]);
    assert_eq!(
        (status, error.matches("is taken from the usual models").count()),
        (0, 1),
        "{error}"
    );
    assert!(error.contains("give --gin_file=FILE"), "{error}");
    // A gin file says it.
    let file = dir.join("model.gin");
    file.write_atomic(gin("('silu', 'linear')").as_bytes()).unwrap();
    let flag = format!("--gin_file={file}");
    let (status, error) = convert(&dir, &from, "stated", &[&flag]);
    assert!(status == 0 && !error.contains("usual models"), "{error}");
    let config = json_of(&dir.join("stated/config.json"));
    assert_eq!(config["feed_forward_proj"], "gated-silu");
}

/// A folder of transformers with another configuration, and with a tokenizer.
fn folder(dir: &Path, family: &str, entries: &Value) -> Path {
    let folder = dir.join(&format!("{family}_made"));
    copy_files(&fixture(&format!("other/hugging_face/{family}")), &folder);
    let mut config = json_of(&folder.join("config.json"));
    config.extend(entries.as_object().unwrap().clone());
    folder.join("config.json").write_atomic(Value::Object(config).to_string().as_bytes()).unwrap();
    for name in ["tokenizer.json", "tokenizer_config.json"] {
        folder.join(name).write_atomic(b"{ }").unwrap();
    }
    folder
}

#[test]
fn a_folder_of_transformers_keeps_its_meaning() {
    let (_dir, dir) = scratch();
    let projs =
        ["gated-silu", "gated-relu", "gated-swish", "gated-gelu_python", "gated-quick_gelu"];
    for proj in projs {
        let dir = dir.join(proj);
        let said = json!({
            "feed_forward_proj": proj, "dense_act_fn": &proj[6..], "layer_norm_epsilon": 1e-5,
            "decoder_start_token_id": 5, "dropout_rate": 0.0, "task_specific_params": {"x": [1]},
            "transformers_version": "4.57.1",
        });
        let from = folder(&dir, "t5_1_1", &said);
        let generation = br#"{"decoder_start_token_id": 5, "num_beams": 3}"#;
        from.join("generation_config.json").write_atomic(generation).unwrap();
        let (status, error) = convert(&dir, &from, "out", &["--dtype=bfloat16"]);
        assert!(status == 0 && !error.contains("usual models"), "{error}");
        let config = json_of(&dir.join("out/config.json"));
        let mut expected = json_of(&from.join("config.json"));
        for key in ["dtype", "transformers_version", "tie_word_embeddings"] {
            expected.remove(key);
        }
        expected.insert("torch_dtype".to_string(), json!("bfloat16"));
        expected.insert("tie_word_embeddings".to_string(), json!(false));
        assert_eq!(config, expected);
        let written = json_of(&dir.join("out/generation_config.json"));
        assert_eq!(Value::Object(written), json!({"decoder_start_token_id": 5, "num_beams": 3}));
        assert_eq!(dir.join("out/tokenizer.json").read().unwrap(), b"{ }");
    }
}

#[test]
fn what_t5x_cannot_hold_of_a_folder_is_said() {
    let (_dir, dir) = scratch();
    let from = folder(&dir, "t5_1_1", &json!({"layer_norm_epsilon": 1e-5}));
    let to = dir.join("t5x/checkpoint_0");
    let (status, _, error) = gimlet(&dir, &["convert", from.as_str(), to.as_str()]);
    assert_eq!(status, 0, "{error}");
    let said = "does not hold the model's configuration (feed_forward_proj = \"gated-gelu\", \
                layer_norm_epsilon = 0.00001): give --gin_file=t5_1_1_made/config.json";
    assert!(error.contains(said), "{error}");
    // And back, with the file that was named.
    let flag = format!("--gin_file={}", from.join("config.json"));
    let (status, error) = convert(&dir, &to, "back", &[&flag]);
    assert_eq!(status, 0, "{error}");
    assert_eq!(json_of(&dir.join("back/config.json"))["layer_norm_epsilon"], json!(1e-5));
    assert!(names(&dir.join("back")).contains(&"tokenizer.json".to_string()));
}

#[test]
fn an_mt5_whose_head_is_its_embedding_is_written_as_a_t5() {
    let (_dir, dir) = scratch();
    // Only version 4 divides in an mt5.
    let config = json!({
        "model_type": "mt5",
        "feed_forward_proj": "relu",
        "tie_word_embeddings": true,
        "transformers_version": "4.57.6",
    });
    let from = folder(&dir, "t5", &config);
    let (status, error) = convert(&dir, &from, "out", &[]);
    assert!(status == 0 && error.contains("is written as a t5"), "{error}");
    let config = json_of(&dir.join("out/config.json"));
    assert_eq!(
        (&config["model_type"], &config["tie_word_embeddings"]),
        (&json!("t5"), &json!(true))
    );
    let (status, error) = convert(&dir, &from, "asked", &["--model_type=mt5"]);
    assert!(status == 2 && error.contains("give --model_type=t5"), "{error}");
}
