//! `gimlet t5_experiments`: a pretraining as users of t5-experiments type it, and the same run as printed gin.

use std::fs;

use gimlet::models::open;
use gimlet::storage::Path;

use crate::command::Train;
use crate::events::read_scalars;
use crate::folder::Folder;
use crate::play::programs;
use crate::processes::{TOLERANCE, difference_of_arrays, difference_of_metrics};

pub(super) const VOCABULARY: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/tests/pipeline/data/reference/sentencepiece.model");

/// A T5 of two layers, as a file of `models_configs/`.
pub(super) const NANO: &str = r#"{"model_type": "t5", "d_model": 16, "d_kv": 8, "d_ff": 24, "num_heads": 2,
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

/// The first command of t5-experiments' README, with fewer rows, tokens and steps, and with validations.
const SEED: &str = "export CUDA_VISIBLE_DEVICES=4,5; horovodrun --gloo -np 2 python run_t5_pretraining.py \
        --batch_size 3 \
        --gradient_accumulation_steps 2 \
        --save_interval 9 \
        --log_interval 1 \
        --iters 9 \
        --data_path ~/data/ThePile/Wikipedia/preprocessed_shards \
        --valid_data_path ~/data/valid --valid_interval 4 --save_best \
        --model_path ./runs/small_wiki_bs_128 \
        --input_seq_len 32 \
        --target_seq_len 16 \
        --lr 5e-03 \
        --weight_decay 1e-05 \
        --model_cfg ./models_configs/t5_configs/t5-small.json \
        --model_cls modeling_t5:T5ForConditionalGeneration";

/// A folder with the files of that command, in which passes over the two parts end in different steps, and the folder of shims.
fn checkout() -> Folder {
    let folder = folder();
    for name in ["data/ThePile/Wikipedia", "models_configs/t5_configs", "vocabs"] {
        fs::create_dir_all(folder.path(name)).expect("a folder");
    }
    folder.write("models_configs/t5_configs/t5-small.json", NANO);
    fs::copy(VOCABULARY, folder.path("vocabs/sentencepiece.model")).expect("it is committed");
    fs::rename(folder.path("valid"), folder.path("data/valid")).expect("it is there");
    let shards = "data/ThePile/Wikipedia/preprocessed_shards";
    fs::rename(folder.path("train"), folder.path(shards)).expect("it is there");
    for (number, lines) in [(0, 17), (1, 26)] {
        let name = format!("{shards}/shard_0{number}.jsonl");
        let text = fs::read_to_string(folder.path(&name)).expect("it is there");
        folder.write(
            &name,
            text.lines().take(lines).map(|line| format!("{line}\n")).collect::<String>(),
        );
    }
    Train::new(&folder.path("")).tool(&["shims"]).arg("shims").succeeds();
    folder
}

/// A shell line in a folder whose shims come first on the PATH, and which is the home.
fn shell(folder: &Folder, line: &str) -> Train {
    let home = folder.path("").display().to_string();
    let others = std::env::var("PATH").expect("it is set");
    let path = format!("{home}/shims:{}:{others}", programs().display());
    let train = Train::new(&folder.path("")).program("sh").tool(&["-c"]).arg(line);
    train.env("PATH", &path).env("HOME", home.trim_end_matches('/'))
}

#[test]
fn two_processes_that_horovodrun_starts_make_the_run_of_one_with_the_whole_batch() {
    let folder = checkout();
    shell(&folder, SEED).succeeds();
    let printed = shell(&folder, &format!("{SEED} --print_gin")).succeeds().stdout;
    assert!(printed.contains("BATCH_SIZE = 12") && printed.contains("file_parts = 2"), "{printed}");
    folder.write("whole.gin", &printed);
    let whole = Train::new(&folder.path("")).gin_file("whole.gin");
    whole.bind_text("MODEL_DIR", folder.path("whole")).succeeds();
    let [found, whole] = ["runs/small_wiki_bs_128", "whole"].map(|name| folder.path(name));
    let metrics = difference_of_metrics(&found, &whole, "training_eval/pretraining");
    let [found, whole] = [found, whole].map(|folder| {
        let file = Path::try_from(&*folder.join("model_9.pth")).expect("the path is text");
        open(&file).expect("the checkpoint is whole")
    });
    let arrays = difference_of_arrays(found.as_ref(), whole.as_ref());
    assert!(
        metrics.is_at_most(TOLERANCE) && arrays.is_at_most(TOLERANCE),
        "{metrics:?} {arrays:?}"
    );
    let config = folder.path("runs/small_wiki_bs_128/config.json");
    let config = fs::read_to_string(config).expect("it is recorded");
    assert!(config.contains("\"HVD_SIZE\": 2"), "{config}");
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
