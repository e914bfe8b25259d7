//! `gimlet gin parse`: its records of a text equal gin-config's reading of it.

use assert_cmd::Command;
use serde_json::{Value, json};

use crate::golden::folder;

#[test]
fn records_are_what_gin_config_reads() {
    let read = |name| std::fs::read_to_string(folder("records").join(name)).expect("committed");
    let expected = read("statements.jsonl");
    let expected: Vec<Value> = expected.lines().map(record).collect();
    assert_eq!(parse(&["-"], &read("statements.gin")), (0, expected));
}

#[test]
fn the_first_mistake_ends_a_file_s_records_and_the_next_file_is_read() {
    let text = "a = 1\nf:\n  b = x\n  c = 2\nd = 3\n";
    let binding =
        json!({"file": "-", "kind": "macro", "scope": "", "selector": "a", "value": 1, "line": 1});
    let error =
        json!({"file": "-", "kind": "error", "message": "`x` is not a valid value", "line": 3});
    let eof = json!({"file": "-", "kind": "eof", "statements": 0});
    assert_eq!(parse(&["-", "-"], text), (1, vec![binding, error, eof]));
}

#[test]
fn a_block_with_a_wrong_last_line_is_left_out() {
    for text in
        ["f:\n  b = 1\n  c =", "f:\n  c = # d\n", "f:\n  b = 1\n  c = \\\n", "f:\n  c = \\\n\n"]
    {
        let (status, records) = parse(&["-"], text);
        assert_eq!((status, records.len()), (1, 1), "{text:?}: {records:?}");
    }
}

#[test]
fn lines_are_counted_as_python_counts_them() {
    let (_, records) = parse(&["-"], "\n\\\n  a.b = 1\n");
    assert_eq!(records[0]["line"], 3);
    let (_, records) =
        parse(&["-"], "a = 1\r\n\rb = '''\r\n\n'''\r\r\nc = 1\rd.e = \\\r\n'\u{2028}'\nf = 2");
    let lines: Vec<_> = records.iter().filter_map(|record| record["line"].as_u64()).collect();
    assert_eq!(lines, [1, 3, 7, 8, 10]);
}

#[test]
fn what_cannot_be_read_is_an_error_of_its_file() {
    let missing = parse(&["no_such.gin"], "");
    assert_eq!((missing.0, missing.1.len()), (1, 1));
    assert_eq!(
        (&missing.1[0]["kind"], &missing.1[0]["file"]),
        (&json!("error"), &json!("no_such.gin"))
    );
}

#[test]
fn what_is_computed_is_shown_as_gin() {
    let (status, records) = parse(&["-"], "a = %((A+1) * 2)\nb = [f'{D}/x']");
    let value = |record: &Value| record.get("value").cloned();
    let found: Vec<_> = records.iter().filter_map(value).collect();
    let expected = [json!({"$computed": "%((A + 1) * 2)"}), json!([{"$computed": "f'{D}/x'"}])];
    assert_eq!((status, &found[..]), (0, &expected[..]));
}

/// The exit status and the records of `gimlet gin parse FILE...` with a text on standard input.
fn parse(files: &[&str], stdin: &str) -> (i32, Vec<Value>) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gimlet"));
    let output = command.args(["gin", "parse"]).args(files).write_stdin(stdin).output();
    let output = output.expect("gimlet starts");
    let records = String::from_utf8(output.stdout).expect("JSON is UTF-8");
    let status = output.status.code().expect("no signal ended it");
    (status, records.lines().map(record).collect())
}

fn record(line: &str) -> Value {
    serde_json::from_str(line).expect("a line is JSON")
}
