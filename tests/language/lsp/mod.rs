//! `gimlet gin lsp`, driven as by an editor: each test starts the program and uses the protocol.

mod client;
mod completing;
mod diagnosing;
mod formatting;
mod navigating;
mod robustness;

use serde_json::{Value as Json, json};

/// A text without the cursor's mark `|`, and the mark's place.
fn marked(text: &str) -> (String, Json) {
    let at = text.find('|').expect("marked");
    let before = &text[..at];
    let line = before.matches('\n').count();
    let column = before.rsplit('\n').next().expect("split yields one part").encode_utf16().count();
    (text.replacen('|', "", 1), json!({"line": line, "character": column}))
}

/// `line:character-character` of a range within one line.
fn place(range: &Json) -> String {
    let (start, end) = (&range["start"], &range["end"]);
    assert_eq!(start["line"], end["line"], "{range}");
    format!("{}:{}-{}", start["line"], start["character"], end["character"])
}
