//! A folder of transformers with a small BERT, of files that other tests have too.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

/// A file that another kind of tests has.
fn committed(file: &str) -> Vec<u8> {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    fs::read(tests.join(file)).expect("it is committed")
}

/// Writes a BertForPreTraining of 64 positions, with the 256 pieces that `change` makes of its list.
pub fn write_bert(folder: &Path, change: impl Fn(String) -> String) {
    let all: Value = serde_json::from_slice(&committed("numerics/bert.json")).expect("it is JSON");
    let mut config = all["bert_absolute"]["config"].clone();
    config["model_type"] = json!("bert");
    let pieces = String::from_utf8(committed("pipeline/data/reference/megatron/vocab.txt"));
    let mut pieces = pieces.expect("it is text").trim_end().to_string();
    let rows = config["vocab_size"].as_u64().expect("a number") as usize;
    for number in 0..rows - pieces.lines().count() {
        pieces += &format!("\n[unused{number}]");
    }
    fs::create_dir_all(folder).expect("the folder can be written");
    let weights = committed("numerics/data/t5_experiments/bert_absolute.safetensors");
    for (name, content) in [
        ("config.json", config.to_string().into_bytes()),
        ("vocab.txt", change(pieces).into_bytes()),
        ("model.safetensors", weights),
    ] {
        fs::write(folder.join(name), content).expect("the folder can be written");
    }
}
