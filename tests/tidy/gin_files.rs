//! Every shipped gin file resolves: the library, the tasks and the runs.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use gimlet::data::TaskProvider;
use gimlet::gin::{Request, load};
use gimlet::run::{GinTasks, Library, registry};

use crate::assert_none;

/// Files that others include and that mean nothing alone.
const PARTS: [&str; 1] = ["encoder_decoder.gin"];

/// What library runs ask their users for.
const REQUIRED: [&str; 5] = [
    "--gin_bindings=import t5.data.mixtures",
    "--gin.MIXTURE_OR_TASK_NAME='c4_v220_span_corruption'",
    "--gin.TASK_FEATURE_LENGTHS={'inputs': 512, 'targets': 114}",
    "--gin.TRAIN_STEPS=1",
    "--gin.DROPOUT_RATE=0.0",
];

#[test]
fn every_library_model_resolves_with_every_library_run() {
    let runs = ["t5x/configs/runs/pretrain.gin", "t5x/configs/runs/finetune.gin"];
    let models: Vec<PathBuf> = gin_files("gin/t5x/examples")
        .into_iter()
        .filter(|path| !PARTS.iter().any(|part| path.ends_with(part)))
        .collect();
    assert!(models.len() > 20, "found {} models only", models.len());
    let mut failures = Vec::new();
    for (model, run) in models.iter().flat_map(|model| runs.map(|run| (model, run))) {
        let files = [format!("--gin_file={}", model.display()), format!("--gin_file={run}")];
        failures.extend(dry_run(&[files.as_slice(), &REQUIRED.map(str::to_string)].concat()).err());
    }
    assert_none("these do not resolve", failures);
}

#[test]
fn every_run_resolves() {
    let mut failures = Vec::new();
    for run in gin_files("runs") {
        let text = fs::read_to_string(&run).expect("runs are readable");
        // A file that names no task is a part of a run.
        if text.lines().any(|line| line.starts_with("MIXTURE_OR_TASK_NAME = \"")) {
            let folder = run.parent().expect("files have folders");
            let search = format!("--gin_search_paths={}", folder.display());
            failures.extend(dry_run(&[search, format!("--gin_file={}", run.display())]).err());
        }
    }
    assert_none("these do not resolve", failures);
}

#[test]
fn every_task_resolves() {
    let mut failures = Vec::new();
    for file in gin_files("tasks").into_iter().chain(gin_files("runs")) {
        let text = fs::read_to_string(&file).expect("task files are readable");
        let tasks = text.lines().filter_map(|line| {
            line.strip_suffix("/seqio.Task:").or(line.strip_suffix("/seqio.Mixture:"))
        });
        for task in tasks {
            failures.extend(resolve_task(&file, task).err());
        }
    }
    assert_none("these do not resolve", failures);
}

fn resolve_task(file: &Path, task: &str) -> Result<(), String> {
    let module = file.file_stem().expect("files have names").to_string_lossy();
    let folder = file.parent().expect("files have folders");
    let request = Request {
        files: Vec::new(),
        bindings: vec![("test".to_string(), format!("import {module}"))],
        search_paths: vec![folder.display().to_string()],
    };
    let loaded =
        load(&request, &Library, &registry()).map_err(|diagnostics| diagnostics.render(false))?;
    let found = GinTasks::new(loaded, registry()).get(task);
    found.map(|_| ()).map_err(|error| error.to_string())
}

/// Runs `gimlet train --dry_run`; a failure gives its message.
fn dry_run(flags: &[String]) -> Result<(), String> {
    let output = Command::new(env!("CARGO_BIN_EXE_gimlet"))
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .args(["train", "--dry_run"])
        .args(flags)
        .args(["--gin.MODEL_DIR='/nowhere'", "--gin.INITIAL_CHECKPOINT_PATH='/nowhere'"])
        .output()
        .expect("gimlet starts");
    if output.status.success() {
        return Ok(());
    }
    Err(format!("{}\n{}", flags.join(" "), String::from_utf8_lossy(&output.stderr)))
}

/// All gin files below a folder of the package, in order.
fn gin_files(folder: &str) -> Vec<PathBuf> {
    let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join(folder)];
    let mut files = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("folders are readable") {
            let path = entry.expect("entries are readable").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "gin") {
                files.push(path);
            }
        }
    }
    files.sort();
    files
}
