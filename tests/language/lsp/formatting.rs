//! Formatting, as by `gimlet gin fmt`.

use serde_json::{Value as Json, json};

use super::client::Client;

/// Returns the answer to a formatting request for a text that is open as `a.gin`.
fn formatted(text: &str) -> Result<Json, String> {
    let mut editor = Client::new(&[]);
    editor.open("a.gin", text);
    let document = json!({"uri": editor.uri("a.gin")});
    let options = json!({"tabSize": 4, "insertSpaces": true});
    let params = json!({"textDocument": document, "options": options});
    let response = editor.ask("textDocument/formatting", params);
    response.response_result.map_err(|error| error.message)
}

#[test]
fn a_file_is_laid_out_by_one_edit() {
    let end = json!({"line": 2, "character": 5});
    let range = json!({"start": {"line": 0, "character": 0}, "end": end});
    let edit = json!({"range": range, "newText": "A = '𝒳'\nf:\n  b = 1\n"});
    assert_eq!(formatted("A='𝒳'\r\nf:\r\n  b=1"), Ok(json!([edit])));
    assert_eq!(formatted("A = 1\n"), Ok(json!([])));
}

#[test]
fn a_file_with_mistakes_is_left_alone() {
    let refusal = "fix the mistakes first: `x` is not a valid value";
    assert_eq!(formatted("A=x\n"), Err(refusal.to_string()));
}
