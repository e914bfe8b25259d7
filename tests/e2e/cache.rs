//! A task that is cached, from the error that asks for it to the run that reads it.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use crate::command::Ended;
use crate::folder::Folder;
use crate::play::programs;

/// Runs a line as a user would paste it, with `gimlet` on the path.
fn paste(folder: &Folder, line: &str) -> Ended {
    let line = format!("PATH={}:$PATH; {line}", programs().display());
    let output = Command::new("sh").args(["-c", &line]).current_dir(folder.path("")).output();
    Ended::new(output.expect("a shell is there"))
}

#[test]
fn the_command_that_the_error_names_makes_the_cache() {
    let folder = Folder::new();
    let train = folder
        .pretrain(4)
        .bind("MIXTURE_OR_TASK_NAME", "'cached'")
        .bind("USE_CACHED_TASKS", "True")
        .arg("--seqio_additional_cache_dirs=my caches");
    let ended = train.run();
    assert_eq!(ended.status, Some(2), "{}", ended.stderr);
    let command = ended.stderr.split('`').find(|part| part.starts_with("gimlet cache "));
    let command = command.unwrap_or_else(|| panic!("no command in {}", ended.stderr));
    assert!(command.ends_with("--tasks=cached --output_cache_dir='my caches'"), "{command}");
    let made = paste(&folder, command);
    assert_eq!(made.status, Some(0), "{command}\n{}", made.stderr);
    // From now on the run trains on the cache alone.
    for name in ["lines-0.txt", "lines-1.txt", "held-out.txt"] {
        fs::remove_file(folder.path(name)).expect("the file is there");
    }
    train.succeeds();
    let again = paste(&folder, command);
    assert!(again.stderr.contains("skipped, it is cached in my caches/cached"), "{}", again.stderr);
}

/// File names and contents of a folder.
fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = fs::read_dir(folder).expect("the cache is there").map(Result::unwrap);
    let read = |entry: fs::DirEntry| {
        let content = fs::read(entry.path()).expect("it can be read");
        (entry.file_name().into_string().expect("names are text"), content)
    };
    entries.map(read).collect()
}

#[test]
fn launched_processes_write_the_cache_of_one() {
    let folder = Folder::new();
    let written = |name: &str, tool: &[&str]| {
        let out = folder.path(name);
        let command = folder.train("pretrain_tiny.gin").tool(tool).arg("--min_shards=3");
        let command = command.arg("--tasks=cached");
        command.arg(format!("--output_cache_dir={}", out.display())).succeeds();
        files(&out.join("cached"))
    };
    let launched = written("three", &["launch", "--nproc_per_node=3", "cache"]);
    assert_eq!(launched, written("one", &["cache"]));
    // A mistake is told once, before processes are started.
    let command =
        folder.train("pretrain_tiny.gin").tool(&["launch", "--nproc_per_node=3", "cache"]);
    let ended = command.arg("--tasks=other").arg("--output_cache_dir=out").run();
    assert_eq!(ended.status, Some(2), "{}", ended.stderr);
    assert!(ended.stderr.starts_with("error: no task is named `other`"), "{}", ended.stderr);
}
