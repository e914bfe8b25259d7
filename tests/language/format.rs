//! `gimlet gin fmt`: one layout for every text, and the same meaning.

use assert_cmd::Command;
use gimlet::gin::{FileId, Severity};
use gimlet::gin::{Unformatted, ast::Statement, format, parse};
use proptest::prelude::*;

use crate::golden::{cases, check};

#[test]
fn texts_are_laid_out() {
    for case in cases("format") {
        let text = std::fs::read_to_string(&case).expect("the case is readable");
        let formatted = format(&text).expect("the case is gin");
        check(&case, &formatted);
        assert_eq!(format(&formatted).as_ref(), Ok(&formatted), "{}", case.display());
    }
}

#[test]
fn line_breaks_become_those_of_unix() {
    let formatted = format("a = 1\r\nb = '''\r\n'''\rc = 2").expect("is gin");
    assert_eq!(formatted, "a = 1\nb = '''\n'''\nc = 2\n");
    assert_eq!(format("\r\n\n").as_deref(), Ok(""));
}

#[test]
fn what_is_no_gin_is_refused() {
    let Err(Unformatted::Mistakes(list)) = format("a = 1\nb = x\n") else { panic!("is no gin") };
    assert_eq!(list.len(), 1);
}

#[test]
fn files_are_rewritten_only_where_they_differ_and_not_when_checked() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("a.gin");
    let read = || std::fs::read_to_string(&path).expect("the file stays");
    let run = |args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_gimlet"));
        let output = command.args(["gin", "fmt"]).args(args).arg(&path).output();
        let output = output.expect("gimlet starts");
        (output.status.code(), String::from_utf8(output.stdout).expect("gin is UTF-8"))
    };
    std::fs::write(&path, "a=1\n").expect("the folder is writable");
    let (status, changes) = run(&["--check"]);
    assert_eq!((status, read().as_str()), (Some(1), "a=1\n"));
    assert!(changes.ends_with("@@ -1 +1 @@\n-a=1\n+a = 1\n"), "{changes}");
    assert_eq!((run(&[]), read().as_str()), ((Some(0), String::new()), "a = 1\n"));
    assert_eq!(run(&["--check"]), (Some(0), String::new()));
    std::fs::write(&path, "a=x\n").expect("the folder is writable");
    assert_eq!((run(&[]), read().as_str()), ((Some(1), String::new()), "a=x\n"));
}

#[test]
fn standard_input_goes_to_standard_output() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gimlet"));
    command.args(["gin", "fmt", "-"]).write_stdin("a=1").assert().success().stdout("a = 1\n");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]
    #[test]
    fn formatting_twice_changes_nothing_and_once_no_meaning(text in text()) {
        let (before, mistakes) = parse(FileId(0), &text);
        let correct = mistakes.iter().all(|mistake| mistake.severity != Severity::Error);
        match format(&text) {
            Ok(formatted) => {
                prop_assert!(correct);
                let (after, _) = parse(FileId(0), &formatted);
                prop_assert_eq!(said(&before), said(&after), "{}", formatted);
                let again = format(&formatted);
                prop_assert_eq!(again.as_ref(), Ok(&formatted));
            }
            Err(Unformatted::Mistakes(_)) => prop_assert!(!correct),
            Err(Unformatted::Unfaithful) => prop_assert!(false, "unfaithful"),
        }
    }
}

/// Statements as text, without the places that formatting moves.
fn said(statements: &[Statement]) -> String {
    let places = fancy_regex::Regex::new(r"span: Span \{[^}]*\}").expect("is a pattern");
    places.replace_all(&format!("{statements:?}"), "").into_owned()
}

/// Files of random statements, most of them correct, with random blanks and comments.
fn text() -> impl Strategy<Value = String> {
    let blank = prop_oneof![4 => Just(" "), 2 => Just(""), 1 => Just("  "), 1 => Just("\t")];
    let inner = prop_oneof![
        8 => Just(""), 4 => Just(" "), 2 => Just("\n"), 1 => Just("\n\n\n"), 1 => Just(" # c\n"),
        1 => Just("\n  # d\n# e\n"), 1 => Just("\\\n"),
    ];
    let leaf = prop_oneof![
        Just("1"),
        Just("-2.5"),
        Just("- 3j"),
        Just("None"),
        Just("'#'"),
        Just("\"a'b\""),
        Just("'a' 'b'"),
        Just("'''x\n# y\n'''"),
        Just("b'\\x00'"),
        Just("@s/f"),
        Just("@f ( )"),
        Just("% M"),
        Just("%(A*-2)"),
        Just("f'{A}#'"),
        Just("@a_long_name.of_a_module.with_more_words"),
    ];
    let leaf = leaf.prop_map(str::to_string);
    let value = leaf.prop_recursive(4, 24, 4, move |value| {
        let item = (inner.clone(), value, inner.clone()).prop_map(|(a, v, b)| format!("{a}{v}{b}"));
        let items = prop::collection::vec(item, 0..5);
        (items, 0..4, any::<bool>()).prop_map(|(items, kind, comma)| {
            let comma = if comma && !items.is_empty() { "," } else { "" };
            match kind {
                0 => format!("[{}{comma}]", items.join(",")),
                1 => format!("({}{comma})", items.join(",")),
                2 => format!("('a'{})", items.iter().map(|_| "\n# c\n 'b'").collect::<String>()),
                _ => {
                    let entry = |(i, item)| format!("{i}:{item}");
                    let entries: Vec<_> = items.iter().enumerate().map(entry).collect();
                    format!("{{{}{comma}}}", entries.join(","))
                }
            }
        })
    });
    let comment = prop_oneof![4 => Just(""), 1 => Just("# c"), 1 => Just("  #d  ")];
    let key = prop_oneof![Just("A"), Just("s/f.x"), Just("a.b.c")];
    let bound = (key, blank.clone(), value.clone(), blank.clone(), comment.clone())
        .prop_map(|(key, a, value, b, comment)| format!("{key}{a}={b}{value}{comment}\n"));
    let lines = prop::collection::vec((value, comment.clone()), 1..3);
    let block = (comment.clone(), lines, 1..5usize).prop_map(|(head, lines, indent)| {
        let indent = " ".repeat(indent);
        let line = |(value, comment)| format!("{indent}x = {value}{comment}\n{indent}# e\n");
        format!("f:{head}\n{}", lines.into_iter().map(line).collect::<String>())
    });
    let statement = prop_oneof![
        6 => bound,
        3 => block,
        1 => Just("include 'a'  'b'\n".to_string()),
        1 => Just("from a import b  as c\n".to_string()),
        2 => comment.prop_map(|comment| format!("{comment}\n")),
        1 => Just("\n\n\n\n".to_string()),
        1 => Just("    # g\n".to_string()),
    ];
    prop::collection::vec(statement, 0..6).prop_map(|statements| statements.concat())
}
