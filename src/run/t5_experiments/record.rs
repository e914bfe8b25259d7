//! The files with which t5-experiments records a run: `config.json` with every argument, and `git.diff` with the
//! changes of the working directory that are not committed. Source: t5-experiments `lm_experiments_tools/utils.py`.

use std::env;
use std::fs;
use std::path;
use std::process::Command;

use crate::dialects::t5_experiments::Arguments;
use crate::gin::Json;
use crate::run::record::{Record, RecordFile};

const INDENT: usize = 4;

/// Makes the record of a run. Without git, or outside of a repository, its texts are empty.
pub(super) fn record(arguments: &Arguments, num_processes: usize) -> Record {
    let folder = arguments.path("working_dir").unwrap_or_default();
    let file = |name: &str, text| RecordFile { name: name.to_string(), text, keeps_earlier: false };
    let diff = git(&folder, &["diff", "HEAD", "--binary"]);
    let config = config(arguments, &folder, num_processes).dumps_indented(INDENT);
    let run = arguments.path("model_path").unwrap_or_default();
    // The record of the training stays.
    let run = if arguments.is("validate_only") { format!("{run}/validation") } else { run };
    Record { folder: run, files: vec![file("config.json", config), file("git.diff", diff)] }
}

/// Whether the program git is there.
pub(super) fn has_git() -> bool {
    Command::new("git").arg("--version").output().is_ok()
}

fn config(arguments: &Arguments, folder: &str, num_processes: usize) -> Json {
    let whole =
        path::absolute(folder).map_or(folder.to_string(), |path| path.display().to_string());
    let argument = |(name, value): (String, Json)| match &name[..] {
        "working_dir" => (name, Json::Text(whole.clone())),
        _ => (name, value),
    };
    let devices = env::var("CUDA_VISIBLE_DEVICES").unwrap_or_default();
    let machine = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let commit = git(folder, &["rev-parse", "HEAD"]);
    let environment = [
        ("ENV", Json::of("CUDA_VISIBLE_DEVICES", Json::Text(devices))),
        ("HVD_INIT", Json::Bool(true)),
        ("HVD_SIZE", Json::Int(num_processes as i128)),
        ("accelerate", Json::Object(accelerate(arguments))),
        ("MACHINE", Json::Text(machine.trim().to_string())),
        ("COMMIT", Json::Text(commit.trim().to_string())),
    ];
    let environment = environment.map(|(name, value)| (name.to_string(), value));
    Json::Object(arguments.record().into_iter().map(argument).chain(environment).collect())
}

/// The state of Accelerate, which each program initializes.
fn accelerate(arguments: &Arguments) -> Vec<(String, Json)> {
    let precision = arguments.text("mixed_precision");
    let precision = precision.map(|text| ("mixed_precision", Json::Text(text)));
    let state = [("initialized", Json::Bool(true))].into_iter().chain(precision);
    state.map(|(name, value)| (name.to_string(), value)).collect()
}

/// Returns the output of git in a folder; empty if it fails.
fn git(folder: &str, words: &[&str]) -> String {
    let output = Command::new("git").arg("-C").arg(folder).args(words).output();
    let output = output.ok().filter(|output| output.status.success());
    output.map_or(String::new(), |output| String::from_utf8_lossy(&output.stdout).into_owned())
}
