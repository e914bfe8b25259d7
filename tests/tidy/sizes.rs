//! Files and functions of limited length.

use crate::assert_none;
use crate::source::{Source, end_of_block, first_word, is_word, sources};

const MAX_FILE_LINES: usize = 600;
const MAX_FUNCTION_LINES: usize = 80;
const ROOTS: [&str; 6] = ["src", "macros", "tests", "benches", "examples", "build.rs"];

#[test]
fn files_have_at_most_600_lines() {
    let long = sources(&ROOTS)
        .iter()
        .map(|source| (source.text.lines().count(), &source.path))
        .filter(|(lines, _)| *lines > MAX_FILE_LINES)
        .map(|(lines, path)| format!("{path}: {lines} lines"))
        .collect();
    assert_none("split the file by what its parts are", long);
}

#[test]
fn functions_have_at_most_80_lines() {
    let long = sources(&ROOTS).iter().flat_map(long_functions).collect();
    assert_none("split the function into its steps", long);
}

fn long_functions(source: &Source) -> Vec<String> {
    let code = &source.code;
    let mut long = Vec::new();
    for (offset, _) in code.match_indices("fn ") {
        if offset > 0 && is_word(code.as_bytes()[offset - 1]) {
            continue;
        }
        let Some(end) = end_of_block(code, offset) else { continue };
        let lines = source.line_at(end - 1) - source.line_at(offset) + 1;
        if lines > MAX_FUNCTION_LINES {
            let name = first_word(&code[offset + 3..]);
            long.push(format!("{}: `{name}` has {lines} lines", source.place(offset)));
        }
    }
    long
}
