//! The runs of papers train: each file of `runs/` for T5 1.1, its LM adaptation, mT5, ByT5, umT5, nanoT5 and UL2, by its own command, with
//! small dimensions over stand-ins for its data.

use std::collections::BTreeSet;
use std::fs;
use std::sync::Mutex;
use std::thread;

use gimlet::gin::config_str;
use gimlet::run::registry;
use serde_json::json;

use crate::command::{Train, sources};
use crate::folder::{Folder, steps};
use crate::play::programs;
use crate::run_commands::{RunCommand, run_commands};

/// The folders of the runs.
const PAPERS: [&str; 7] = ["byt5", "lm_adapted", "mt5", "nanot5", "t5_1_1", "ul2", "umt5"];

const DIMENSIONS: [(&str, &str); 8] = [
    ("dtype", "'float32'"),
    ("vocab_size", "2560"),
    ("emb_dim", "16"),
    ("num_heads", "2"),
    ("num_encoder_layers", "1"),
    ("num_decoder_layers", "1"),
    ("head_dim", "8"),
    ("mlp_dim", "32"),
];

/// A short training from scratch of rows that are short too.
const SHORT: [(&str, &str); 9] = [
    ("MODEL_DIR", "'model'"),
    ("TRAIN_STEPS", "3"),
    ("WARMUP_STEPS", "1"),
    ("BATCH_SIZE", "4"),
    ("TASK_FEATURE_LENGTHS", "{'inputs': 64, 'targets': 64}"),
    ("utils.RestoreCheckpointConfig.path", "[]"),
    ("train/utils.DatasetConfig.shuffle", "False"),
    ("train.train_eval_dataset_cfg", "None"),
    ("train.infer_eval_dataset_cfg", "None"),
];

/// A vocabulary for stand-ins of tasks, which are in `gin/small_tasks.gin`.
const BYTES: [(&str, &str); 2] =
    [("VOCABULARY", "@seqio.ByteVocabulary()"), ("seqio.ByteVocabulary.extra_ids", "20")];

/// The places of vocabularies.
const VOCABULARIES: [&str; 2] = ["cc_all.32000", "cc_all.32000.100extra"];

fn paper(run: &RunCommand) -> &str {
    run.file.split('/').nth(1).expect("it is in a folder")
}

/// The bindings that replace the data of a run, or only point to small ones.
fn data(run: &RunCommand) -> Vec<(&'static str, &'static str)> {
    let tunes = run.file.contains("finetune") || run.file.ends_with("super_glue.gin");
    let stand_ins = |bindings: &[(&'static str, &'static str)]| [bindings, &BYTES].concat();
    match (paper(run), tunes) {
        ("nanot5", _) => Vec::new(),
        ("ul2", _) if run.file.ends_with("fat5.gin") => vec![
            ("VOCABULARY_FILE", "'vocabs/cc_all.32000/sentencepiece.model'"),
            ("FILES", "{'train': 'c4/en/train.jsonl'}"),
        ],
        ("ul2", _) => Vec::new(),
        // The task's vocabulary has sentinels that this model of it lacks.
        ("t5_1_1" | "lm_adapted", false) => {
            vec![("seqio.SentencePieceVocabulary.extra_ids", "100")]
        }
        ("umt5", true) => {
            stand_ins(&[("MT5_TASK", "'echo'"), ("adafactor.Adafactor.step_offset", "0")])
        }
        ("umt5", false) => stand_ins(&[
            ("MIXTURE_OR_TASK_NAME", "'lines'"),
            ("TRAIN_EVAL_MIXTURE_OR_TASK_NAME", "'lines'"),
        ]),
        (_, true) => stand_ins(&[("MIXTURE_OR_TASK_NAME", "'echo'"), ("SETTING", "''")]),
        (_, false) => stand_ins(&[("MIXTURE_OR_TASK_NAME", "'lines'")]),
    }
}

/// The command with other bindings.
fn miniature(run: &RunCommand) -> RunCommand {
    let network = if paper(run) == "umt5" { "scalable_t5" } else { "t5" };
    let dimension =
        |(name, value)| (format!("t5x.examples.{network}.network.T5Config.{name}"), value);
    let bindings =
        SHORT.into_iter().chain(data(run)).map(|(name, value)| (name.to_string(), value));
    let bindings = bindings.chain(DIMENSIONS.map(dimension));
    let tasks = [
        format!("--gin_search_paths={}", sources("gin").display()),
        "--gin_bindings=import small_tasks".to_string(),
    ];
    run.with(tasks.into_iter().chain(bindings.map(|(name, value)| format!("--gin.{name}={value}"))))
}

/// A folder with C4's stand-in and vocabularies.
fn prepared() -> Folder {
    let folder = Folder::new();
    let lines = fs::read_to_string(folder.path("lines-0.txt")).expect("it was written");
    let lines: Vec<String> = lines.lines().map(|line| json!({"text": line}).to_string()).collect();
    fs::create_dir_all(folder.path("c4/en")).expect("the folder can be written");
    folder.write("c4/en/train.jsonl", lines.join("\n"));
    folder.write("c4/en/validation.jsonl", lines.join("\n"));
    for vocabulary in VOCABULARIES.map(|name| format!("vocabs/{name}")) {
        fs::create_dir_all(folder.path(&vocabulary)).expect("the folder can be written");
        let model = include_bytes!("../../runs/quickstart/data/botchan.model");
        folder.write(&format!("{vocabulary}/sentencepiece.model"), model);
    }
    folder
}

fn trains(run: &RunCommand) {
    let folder = prepared();
    let maps = [
        "--path_map=gs://t5-data/vocabs=vocabs".to_string(),
        "--path_map=hf://datasets/allenai/c4=c4".to_string(),
        format!("--path_map=tfds://c4/en:2.2.0={}", folder.path("c4/en").display()),
    ];
    // `gimlet` would only check the command once more.
    let program = programs().join("gimlet-torch");
    let train = Train::new(&folder.path("")).program(program.to_str().expect("it is UTF-8"));
    run.words.iter().chain(&maps).fold(train, Train::arg).succeeds();
    assert_eq!(steps(&folder.path("model")).last(), Some(&3), "{}", run.file);
}

/// Files that differ only in tasks, lengths, steps or rows are one configuration in miniature.
#[test]
fn each_run_of_a_paper_trains_three_steps() {
    let is_one = |run: &RunCommand| PAPERS.contains(&paper(run));
    let runs: Vec<RunCommand> = run_commands().into_iter().filter(is_one).collect();
    assert!(runs.len() >= 40, "found {} runs only", runs.len());
    let registry = registry();
    let mut seen = BTreeSet::new();
    let mut is_new = |run: &RunCommand| {
        let loaded = run.loaded().unwrap_or_else(|error| panic!("{}: {error}", run.file));
        seen.insert(config_str(&loaded.config, &registry))
    };
    let distinct: Vec<RunCommand> = runs.iter().map(miniature).filter(|run| is_new(run)).collect();
    println!("{} runs are {} configurations", runs.len(), distinct.len());
    let left = Mutex::new(distinct.into_iter());
    let next = || left.lock().expect("no thread failed").next();
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some(run) = next() {
                    trains(&run);
                }
            });
        }
    });
}
