//! Comments name their subject, so that a reader who never saw the code understands each alone.

use crate::assert_none;
use crate::source::sources;

/// Words that stand for a noun when a comment begins with them.
const NOUNLESS: [&str; 6] = ["What", "Who", "Whoever", "Whatever", "That", "Where"];

#[test]
fn no_comment_begins_without_its_subject() {
    let mut breaches = Vec::new();
    for source in sources(&["src", "macros", "tests", "benches", "examples", "fuzz", "build.rs"]) {
        for (index, line) in source.text.lines().enumerate() {
            if doc_text(line).is_some_and(begins_nounless) && !continues(&source.text, index) {
                breaches.push(format!("{}:{}", source.path, index + 1));
            }
        }
    }
    assert_none("name the thing, then say what it does (CONTRIBUTING.md)", breaches);
}

/// The text of a line that is a comment alone.
fn doc_text(line: &str) -> Option<&str> {
    let text = line.trim_start().strip_prefix("//")?;
    Some(text.trim_start_matches(['/', '!']).trim_start())
}

fn begins_nounless(text: &str) -> bool {
    text.split(' ').next().is_some_and(|word| NOUNLESS.contains(&word))
}

/// Whether the line before is a comment whose sentence is not finished.
fn continues(text: &str, index: usize) -> bool {
    let before = index.checked_sub(1).and_then(|before| text.lines().nth(before));
    let before = before.and_then(doc_text).unwrap_or_default();
    !before.is_empty() && !before.ends_with(['.', ':', '?', '`'])
}

#[test]
fn beginnings_are_recognized() {
    for (line, is_wrong) in [
        ("/// What a user wrote.", true),
        ("    // Where the file lies.", true),
        ("/// Whether the file is there.", false),
        ("let what = 1; // What follows", false),
    ] {
        assert_eq!(doc_text(line).is_some_and(begins_nounless), is_wrong, "{line}");
    }
}
