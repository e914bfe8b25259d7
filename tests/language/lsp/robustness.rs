//! The server answers any message of an editor and continues.

use serde_json::{Value as Json, json};

use super::client::Client;

/// The requests that an editor makes at a place.
const QUESTIONS: [(&str, &str); 6] = [
    ("completion", "{}"),
    ("hover", "{}"),
    ("definition", "{}"),
    ("references", r#"{"context": {"includeDeclaration": true}}"#),
    ("prepareRename", "{}"),
    ("rename", r#"{"newName": "X"}"#),
];

/// Makes all requests at all places; a panic would be reported as a bug.
fn ask_everywhere(editor: &mut Client, name: &str, lines: u32, columns: u32) {
    for (method, more) in QUESTIONS {
        let more: Json = serde_json::from_str(more).expect("written above");
        for line in 0..lines {
            for character in 0..columns {
                let at = json!({"line": line, "character": character});
                if let Err(why) = editor.at(method, name, at, more.clone()) {
                    assert!(!why.contains("panicked"), "{method} at {line}:{character}: {why}");
                }
            }
        }
    }
}

#[test]
fn any_place_in_any_text_is_answered() {
    let mut editor = Client::new(&[]);
    for text in [
        "",
        "\u{feff}A = '𝒳é\r\nf:\r\n\tb = [%(A * @\n",
        "include 'a.gin'\ninclude '\nimport \nfrom . import\n%A = @\n",
        "s/A = f'{A}{'\nA/macro.value = @A/macro()\n\u{2028}B = %s/A\0",
    ] {
        editor.open("a.gin", text);
        ask_everywhere(&mut editor, "a.gin", 5, 9);
    }
    assert_eq!(editor.close(), Some(0));
}

#[test]
fn files_that_include_each_other_are_a_mistake_and_no_more() {
    let files = [
        ("sub/a.gin", "include '../sub/b.gin'\nA = 1\n"),
        ("sub/b.gin", "include 'a.gin'\nB = %A\n"),
    ];
    let mut editor = Client::new(&files);
    for (name, text) in files {
        let wrong = editor.open(name, text);
        let said = wrong[0]["message"].as_str().expect("a text");
        assert!(said.contains("includes itself"), "{said}");
        ask_everywhere(&mut editor, name, 2, 12);
    }
}

#[test]
fn a_file_that_vanishes_is_gone_and_no_more() {
    let mut editor = Client::new(&[("a.gin", "A = 1\n"), ("b.gin", "include 'a.gin'\n")]);
    editor.open("b.gin", "include 'a.gin'\nB = %A\n");
    std::fs::remove_file(editor.path("a.gin")).expect("it was there");
    let wrong = editor.edit("b.gin", "include 'a.gin'\nB = %A\n");
    assert_eq!(wrong.len(), 1, "{wrong:?}");
    let at = json!({"line": 0, "character": 2});
    assert_eq!(editor.at("hover", "a.gin", at, json!({})), Ok(Json::Null));
}

#[test]
fn a_file_that_appears_is_found() {
    let mut editor = Client::new(&[]);
    editor.open("b.gin", "include 'a.gin'\n");
    editor.write("a.gin", "A = 1\n");
    assert_eq!(editor.edit("b.gin", "include 'a.gin'\nB = %A\n"), [Json::Null; 0]);
}

#[test]
fn messages_that_make_no_sense_are_refused() {
    let mut editor = Client::new(&[]);
    let code = |response: lsp_server::Response| response.response_result.expect_err("refused").code;
    assert_eq!(code(editor.ask("textDocument/hover", json!({"position": 1}))), -32602);
    assert_eq!(code(editor.ask("textDocument/moniker", json!({}))), -32601);
    editor.tell("textDocument/didOpen", json!([]));
    editor.tell("textDocument/didChange", json!({"textDocument": {"uri": "x", "version": 1}}));
    editor.tell("$/unknown", json!(null));
    let change = json!({"range": {
        "start": {"line": 9, "character": 9}, "end": {"line": 1, "character": 1},
    }, "text": "A = x"});
    editor.open("a.gin", "");
    assert_eq!(editor.change("a.gin", change).len(), 1);
    assert_eq!(editor.close(), Some(0));
}

#[test]
fn an_editor_that_goes_away_ends_the_server() {
    let mut editor = Client::new(&[]);
    editor.send_raw(b"Content-Length: 3\r\n\r\n{]}");
    assert_eq!(editor.wait(), Some(1));
}
