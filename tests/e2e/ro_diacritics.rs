//! `runs/ro_diacritics` with a tiny model of Hugging Face's, and files in place of the hub and the bucket.

use std::fs;
use std::path::Path;

use gimlet::checkpoint::Stored;
use serde_json::Value;

use crate::arrays;
use crate::command::Train;
use crate::folder::Folder;

/// The place of mT5's vocabulary.
const VOCABULARY: &str = "--path_map=gs://t5-data/vocabs/mc4.250000.100extra=vocabulary";

/// The run with two steps and with a network of milliseconds.
fn run(folder: &Folder) -> Train {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("runs/ro_diacritics/finetune.gin");
    let maps = [
        "hf://datasets/dumitrescustefan/diacritic=diacritic",
        "hf://dumitrescustefan/mt5-base-romanian=exported",
        "gs://t5-data/vocabs/mc4.250000.100extra=vocabulary",
    ];
    let run = Train::new(&folder.path("")).gin_file(file).bind("TRAIN_STEPS", 2);
    let run = maps.iter().fold(run, |run, map| run.arg(format!("--path_map={map}")));
    let sizes = [
        ("vocab_size", 2048),
        ("emb_dim", 16),
        ("num_heads", 2),
        ("num_encoder_layers", 1),
        ("num_decoder_layers", 1),
        ("head_dim", 8),
        ("mlp_dim", 32),
    ];
    sizes
        .iter()
        .fold(run, |run, (size, value)| run.bind(&format!("network.T5Config.{size}"), value))
}

/// A folder with texts, a vocabulary and `exported`, a model of Hugging Face's.
fn prepared() -> Folder {
    let folder = Folder::new();
    fs::create_dir_all(folder.path("diacritic")).expect("the folder can be written");
    fs::create_dir_all(folder.path("vocabulary")).expect("the folder can be written");
    let line = "{\"text\": \"Știe că țara învață mâine.\"}\n";
    folder.write("diacritic/train.jsonl", line.repeat(128));
    folder.write("diacritic/validation.jsonl", line);
    let vocabulary = include_bytes!("../../runs/quickstart/data/botchan.model");
    folder.write("vocabulary/sentencepiece.model", vocabulary);
    run(&folder)
        .bind("utils.RestoreCheckpointConfig.path", "[]")
        .bind("TRAIN_STEPS", 1)
        .bind_text("MODEL_DIR", "scratch")
        .succeeds();
    let convert = Train::new(&folder.path("")).tool(&["checkpoint", "convert"]);
    let words = ["scratch/checkpoint_1", "exported", "--to=hugging_face", VOCABULARY];
    words.into_iter().fold(convert, |convert, word| convert.arg(word)).succeeds();
    folder
}

#[test]
fn the_run_is_converted_to_an_mt5_with_its_tokenizer() {
    let folder = prepared();
    let config = fs::read(folder.path("exported/config.json")).expect("it was written");
    let config: Value = serde_json::from_slice(&config).expect("it is JSON");
    assert_eq!(
        (&config["model_type"], &config["feed_forward_proj"]),
        (&"mt5".into(), &"gated-gelu".into())
    );
    let vocabulary = fs::read(folder.path("exported/spiece.model")).expect("it was written");
    assert_eq!(vocabulary, include_bytes!("../../runs/quickstart/data/botchan.model"));
    assert!(folder.path("exported/tokenizer.json").exists());
    // The logits of both forms are compared, and those of another network differ.
    let verify = |to: &str, flags: &[&str]| {
        let convert = Train::new(&folder.path("")).tool(&["checkpoint", "convert"]);
        let words = ["scratch/checkpoint_1", to, "--to=hugging_face", "--verify", VOCABULARY];
        let words = words.iter().chain(flags);
        words.fold(convert, |convert, word| convert.arg(*word)).run()
    };
    let same = verify("same", &[]);
    assert_eq!(same.status, Some(0), "{}", same.stderr);
    assert!(same.stdout.contains("same: logits differ from those of"), "{}", same.stdout);
    let other = verify("other", &["--model_type=longt5", "--local_radius=1"]);
    assert_eq!(other.status, Some(1), "{}", other.stderr);
    assert!(other.stderr.contains("other: logits differ from those of"), "{}", other.stderr);
}

#[test]
fn the_run_trains_from_a_folder_of_hugging_faces_and_is_scored() {
    let folder = prepared();
    run(&folder)
        .bind_text("MODEL_DIR", "model")
        .bind("train.infer_eval_dataset_cfg", "@infer_eval/utils.DatasetConfig()")
        .succeeds();
    let stored = arrays::open(&folder.path("model"), 2);
    let count = stored.read("state/param_states/count").expect("the optimizer counts");
    assert_eq!(count.to_int(), Some(2));
    let metrics = folder.path("model/inference_eval/ro_diacritics-metrics.jsonl");
    let metrics = fs::read_to_string(metrics).expect("the run wrote it");
    let metrics: Value = serde_json::from_str(metrics.trim()).expect("one line of JSON");
    for metric in ["word_accuracy", "char_accuracy", "sequence_accuracy", "mean_edit"] {
        assert!(metrics[metric].is_number(), "{metrics}");
    }
    let example = folder.path("model/inference_eval/ro_diacritics-000002.jsonl");
    let example = fs::read_to_string(example).expect("the run wrote it");
    let example: Value = serde_json::from_str(example.trim()).expect("one line of JSON");
    assert_eq!(example["input"]["inputs_pretokenized"], "Stie ca tara invata maine.");
}
