//! `gimlet t5_experiments`: a pretraining as users of t5-experiments type it, and the same run as printed gin.

use std::fs;

use crate::command::Train;
use crate::events::read_scalars;
use crate::folder::Folder;

const VOCABULARY: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/tests/pipeline/data/reference/sentencepiece.model");

/// A T5 of two layers, as a file of `models_configs/`.
const NANO: &str = r#"{"model_type": "t5", "d_model": 16, "d_kv": 8, "d_ff": 24, "num_heads": 2,
    "num_layers": 1, "vocab_size": 1100, "dropout_rate": 0.1}"#;

/// The command in a folder with two shards and one held out.
fn pretrain(folder: &Folder, words: &str) -> Train {
    let line = "t5 --data_path train --valid_data_path valid --model_cfg nano.json --batch_size 2 \
        --gradient_accumulation_steps 2 --iters 3 --log_interval 1 --save_interval 2 \
        --input_seq_len 32 --target_seq_len 16 --lr 1e-2";
    let words = line.split_whitespace().chain(words.split_whitespace());
    let train = Train::new(&folder.path("")).tool(&["t5_experiments"]);
    words.fold(train, |train, word| train.arg(word)).arg("--vocab").arg(VOCABULARY)
}

fn folder() -> Folder {
    let folder = Folder::new();
    folder.write("nano.json", NANO);
    for (split, from, name) in [
        ("train", "lines-0.txt", "shard_00.jsonl"),
        ("train", "lines-1.txt", "shard_01.jsonl"),
        ("valid", "held-out.txt", "shard_00.jsonl"),
    ] {
        let text = fs::read_to_string(folder.path(from)).expect("the folder has text");
        let lines = text.lines().map(|line| format!("{}\n", serde_json::json!({ "text": line })));
        fs::create_dir_all(folder.path(split)).expect("a folder");
        folder.write(&format!("{split}/{name}"), lines.collect::<String>());
    }
    folder
}

#[test]
fn a_printed_run_is_the_same_run() {
    let folder = folder();
    pretrain(&folder, "--model_path typed").succeeds();
    let printed = pretrain(&folder, "--model_path printed --print_gin").succeeds().stdout;
    assert!(!folder.path("printed").exists(), "a run that is printed writes nothing");
    folder.write("printed.gin", &printed);
    Train::new(&folder.path("")).gin_file("printed.gin").succeeds();
    let losses = |model_dir: &str| {
        ["train", "training_eval/pretraining"]
            .map(|events| read_scalars(&folder.path(model_dir).join(events))["loss"].clone())
    };
    assert_eq!(losses("typed"), losses("printed"));
    assert_eq!(losses("typed")[0].len(), 4);

    let config = fs::read_to_string(folder.path("typed/config.json")).expect("it is recorded");
    assert!(config.starts_with("{\n    \"model_path\": \"typed\",\n    \"log_interval\": 1,"));
    assert!(folder.path("typed/git.diff").exists());
    assert!(!folder.path("printed/config.json").exists());
}
