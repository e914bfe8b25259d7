//! A task that is cached, from the error that asks for it to the run that reads it.

use std::process::Command;

use crate::command::Ended;
use crate::folder::Folder;

/// Runs a line as a user would paste it, with `gimlet` on the path.
fn paste(folder: &Folder, line: &str) -> Ended {
    let gimlet = std::path::Path::new(env!("CARGO_BIN_EXE_gimlet"));
    let programs = gimlet.parent().expect("it lies in a folder").display();
    let line = format!("PATH={programs}:$PATH; {line}");
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
        std::fs::remove_file(folder.path(name)).expect("the file is there");
    }
    train.succeeds();
    let again = paste(&folder, command);
    assert!(again.stderr.contains("skipped, it is cached in my caches/cached"), "{}", again.stderr);
}
