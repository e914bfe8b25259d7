//! The configurations of the T5 paper train: each row of `runs/t5_paper`, and each of its fine-tunings, with small
//! dimensions over stand-ins for its data (`gin/paper_tasks.gin`).

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::Mutex;
use std::thread;

use gimlet::run::translate_mesh_tf;
use serde_json::Value;

use crate::command::{Train, sources};
use crate::folder::{Folder, steps};

/// Parameters of the command line: what no file binds, small dimensions, and two rows a batch.
const SMALL: [&str; 9] = [
    "tpu_topology = 'v3-8'",
    "init_checkpoint = None",
    "d_model = 16",
    "d_ff = 32",
    "num_layers = 2",
    "num_heads = 2",
    "d_kv = 8",
    "run.batch_size = ('sequences_per_batch', 2)",
    "run.train_steps = 3",
];

/// The names of the configurations that can be repeated, `GROUP/ROW` or `GROUP/ROW/TASK`, with their mixtures.
fn configurations() -> Vec<(String, String)> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/language/mesh_tf/paper.json");
    let json: Value = serde_json::from_str(&fs::read_to_string(file).expect("it is committed"))
        .expect("it is JSON");
    let mixture = |run: &Value| {
        let name = run.get("mixture").unwrap_or(&json["base"]["mixture"]);
        name.as_str().expect("a name").to_string()
    };
    let runs = json["runs"].as_object().expect("a dict");
    let is_public = |name: &&String| !name.starts_with("datasets/ds-wikibook");
    let names = runs.keys().filter(is_public);
    names.map(|name| (name.clone(), mixture(&runs[name]))).collect()
}

/// The command line of a configuration.
fn words(name: &str, mixture: &str) -> Vec<String> {
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
    let stand_in = match mixture {
        _ if mixture.ends_with("unsupervised") => "paper_objective",
        _ if mixture.starts_with("all_") || mixture.starts_with("leave_") => "paper_mixture",
        _ => "paper_pairs",
    };
    let params = SMALL.map(|param| format!("--gin_param={param}"));
    let own = [
        "--module_import=paper_tasks".to_string(),
        format!("--gin_location_prefix={}", sources("gin").display()),
        format!("--gin_param=MIXTURE_NAME = '{stand_in}'"),
    ];
    files.chain(params).chain(own).collect()
}

/// Configurations of equal statements are one run.
#[test]
#[ignore = "takes minutes: `make soak`"]
fn each_configuration_trains_three_steps() {
    let configurations = configurations();
    assert_eq!(configurations.len(), 512);
    let mut seen = BTreeSet::new();
    let mut runs = Vec::new();
    for (name, mixture) in &configurations {
        let words = words(name, mixture);
        let borrowed: Vec<&str> = words.iter().map(String::as_str).collect();
        let translated =
            translate_mesh_tf(&borrowed).unwrap_or_else(|failure| panic!("{name}\n{failure}"));
        let texts = translated.statements.into_iter().map(|statement| statement.text);
        if seen.insert(texts.collect::<Vec<_>>()) {
            runs.push((name, words));
        }
    }
    println!("{} configurations are {} runs", configurations.len(), runs.len());
    let left = Mutex::new(runs.into_iter());
    let next = || left.lock().expect("no thread failed").next();
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some((name, words)) = next() {
                    trains(name, words);
                }
            });
        }
    });
}

fn trains(name: &str, words: Vec<String>) {
    let folder = Folder::new();
    let command = Train::new(&folder.path("")).tool(&["t5_mesh_transformer", "--model_dir=mesh"]);
    let command = words.into_iter().fold(command, Train::arg).num_threads(1);
    command.succeeds();
    assert_eq!(steps(&folder.path("mesh")).last(), Some(&3), "{name}");
}
