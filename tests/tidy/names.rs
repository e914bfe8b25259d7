//! Meaningful names, meaningful errors, and work that is finished or tracked.

use std::path::Path;

use crate::assert_none;
use crate::source::{first_word, sources};

const EMPTY_NAMES: [&str; 7] = ["utils", "util", "common", "base", "helpers", "helper", "misc"];

#[test]
fn no_file_or_folder_is_named_for_nothing() {
    let empty = sources(&["src", "macros", "tests", "benches", "examples"])
        .into_iter()
        .map(|source| source.path)
        .filter(|path| {
            let parts = Path::new(path).with_extension("");
            parts.iter().any(|part| EMPTY_NAMES.iter().any(|name| part == *name))
        })
        .collect();
    assert_none("name the file after what it holds", empty);
}

/// Words that would fit most types.
const EMPTY_TYPES: [&str; 5] = ["Place", "Part", "Entry", "Layout", "Update"];

#[test]
fn no_type_is_named_for_nothing() {
    let mut breaches = Vec::new();
    for source in sources(&["src", "macros"]) {
        for keyword in ["struct ", "enum ", "type "] {
            for (offset, _) in source.code.match_indices(keyword) {
                let name = first_word(&source.code[offset + keyword.len()..]);
                if EMPTY_TYPES.contains(&name) {
                    breaches.push(source.place(offset));
                }
            }
        }
    }
    assert_none("say in the name what it is of: `RecordPlace`, `FolderEntry`", breaches);
}

#[test]
fn no_bare_unwrap_outside_tests() {
    let mut breaches = Vec::new();
    for source in sources(&["src", "macros"]) {
        for (offset, _) in source.code_without_tests().match_indices(".unwrap()") {
            breaches.push(source.place(offset));
        }
    }
    assert_none("return an error, or `expect` with the fact that was believed", breaches);
}

/// Macros that panic when a reader, such as `head`, has closed the stream.
const PANICKING: [&str; 2] = ["print!(", "println!("];

#[test]
fn no_output_panics_when_its_reader_is_gone() {
    let mut breaches = Vec::new();
    for source in sources(&["src"]) {
        let is_tool = ["/build.rs", "/peaks.rs", "/published.rs"]
            .iter()
            .any(|end| source.path.ends_with(end));
        if is_tool || source.path.contains("/examples/") {
            continue;
        }
        let code = source.code_without_tests();
        let found = PANICKING.iter().flat_map(|name| code.match_indices(name));
        breaches.extend(found.map(|(offset, _)| source.place(offset)));
    }
    assert_none("write with `run/output.rs`, or with `telemetry` if it is a notice", breaches);
}

#[test]
fn every_todo_names_an_issue() {
    let word = ["TO", "DO"].concat();
    let tracked = format!("{word}(#");
    let mut breaches = Vec::new();
    for source in sources(&["src", "macros", "tests", "benches", "examples", "build.rs"]) {
        let found = source.text.match_indices(word.as_str());
        let loose = found.filter(|(offset, _)| !source.text[*offset..].starts_with(&tracked));
        breaches.extend(loose.map(|(offset, _)| source.place(offset)));
    }
    assert_none("write the issue's number behind it, or do it", breaches);
}

#[test]
fn an_ignored_test_says_who_runs_it() {
    let runners = [" = \"a child of ", " = \"takes "];
    let mut breaches = Vec::new();
    for source in sources(&["src", "tests"]) {
        for (offset, word) in source.code.match_indices("#[ignore") {
            let reason = &source.text[offset + word.len()..];
            if !runners.iter().any(|runner| reason.starts_with(runner)) {
                breaches.push(source.place(offset));
            }
        }
    }
    assert_none("name the tests that start it as a child, or the time that it takes", breaches);
}
