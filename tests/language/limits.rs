//! Large and hostile texts take time in proportion to their length, and no stack.

use std::time::Duration;

use assert_cmd::Command;
use gimlet::gin::{Diagnostics, FileId, SourceFile, SourceMap, parse};

use crate::growth::check_growth;

/// Reads a text and returns its errors.
fn rendered(text: String) -> String {
    let mut sources = SourceMap::default();
    let file = SourceFile { name: "a.gin".to_string(), text: text.clone(), included_from: None };
    let file = sources.add(file);
    let list = parse(file, &text).1;
    Diagnostics { sources, list }.render(false)
}

#[test]
fn ten_thousand_brackets_are_refused_without_overflow() {
    for (open, close) in ["[]", "()", "{}"].map(|pair| pair.split_at(1)) {
        for text in [
            format!("a = {}{}", open.repeat(10_000), close.repeat(10_000)),
            format!("a = {}", open.repeat(10_000)),
            format!("a = {}", format!("{open}\n").repeat(10_000)),
        ] {
            let shown = rendered(text);
            assert!(shown.contains("deeper than 200 levels"), "{shown}");
            assert_eq!(shown.matches("error:").count(), 1, "{shown}");
        }
    }
}

#[test]
fn what_would_take_too_much_is_refused() {
    let operators = |size| format!("a = %({}1)", "1+".repeat(size));
    let braces = |size| format!("a = f'{{{}1}}'", "-".repeat(size));
    let digits = |size| format!("a = 0x{}", "f".repeat(size));
    let text = |size| format!("é.b = '{}'", "x".repeat(size));
    let mistakes = |size| "a = x\n".repeat(size);
    let items = |size| format!("a = [{}]", ",".repeat(size));
    let texts = [
        (operators(1_000_000), "an expression has at most 200 operators"),
        (braces(1_000_000), "cannot be computed"),
        (digits(100_000), "an integer has at most"),
        (text(9_000_000), "a statement is at most 8 MiB long"),
        (mistakes(1_000_000), "more errors are not shown"),
        (items(1_000_000), "more errors are not shown"),
    ];
    for (text, message) in texts {
        let shown = rendered(text);
        assert!(shown.contains(message), "{message}: {shown}");
    }
}

#[test]
fn the_largest_expression_allowed_is_read() {
    let text = format!("a = %({}1{})", "(1+".repeat(198), ")".repeat(198));
    assert_eq!(rendered(text), "");
    let text = format!("a = %({}1)", "-".repeat(200));
    assert_eq!(rendered(text), "");
}

#[test]
fn what_is_no_file_is_refused_in_place_of_a_hang() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let pipe = folder.path().join("pipe");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status();
    assert!(made.expect("mkfifo starts").success());
    let (pipe, folder) = (pipe.display().to_string(), folder.path().display().to_string());
    for (path, message) in [
        (folder.as_str(), "it is a folder"),
        (pipe.as_str(), "it is a device or a pipe, not a file"),
        ("/dev/zero", "it is a device or a pipe, not a file"),
    ] {
        for (args, status) in [(["gin", "parse", path], 1), (["train", "--gin_file", path], 2)] {
            let output = Command::new(env!("CARGO_BIN_EXE_gimlet"))
                .args(args)
                .timeout(Duration::from_secs(20))
                .output()
                .expect("gimlet starts");
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(said.contains(message), "{args:?}: {said}");
            assert_eq!(output.status.code(), Some(status), "{args:?}");
        }
    }
}

#[test]
fn what_is_no_text_is_refused_with_its_line() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("a.gin");
    std::fs::write(&path, b"a = 1\nb = '\xff'\n").expect("the folder is writable");
    let mut command = Command::new(env!("CARGO_BIN_EXE_gimlet"));
    let output = command.args(["gin", "parse"]).arg(&path).output().expect("gimlet starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.ends_with("it is not text in UTF-8 (line 2)\n"), "{said}");
}

#[test]
fn an_expression_is_not_tried_once_for_each_bracket_in_its_comments() {
    let brackets = "(".repeat(100);
    for quote in [r#"""""#, "'''"] {
        let text = format!("a = %(0from b\n+ {quote}{brackets} # c\n# {quote}\n)");
        assert!(rendered(text).contains("cannot be computed"));
    }
}

#[test]
fn the_deepest_nesting_allowed_fits_a_small_stack() {
    let text = format!("a = {}1{}", "[".repeat(200), "]".repeat(200));
    let read = move || {
        let (statements, diagnostics) = parse(FileId(0), &text);
        assert_eq!(diagnostics, []);
        format!("{:?}", statements.clone()).len()
    };
    let thread = std::thread::Builder::new().stack_size(2 << 20).spawn(read);
    thread.expect("a thread starts").join().expect("the stack suffices");
}

#[test]
fn time_is_proportional_to_length() {
    let lists = |size| format!("a = [{}]", "1, 'x', ".repeat(size));
    let dicts =
        |size| format!("a = {{{}}}", (0..size).map(|i| format!("{i}: 1,")).collect::<String>());
    let lines = |size| "a/b.c = @d()\n".repeat(size);
    let unclosed = |size| "a = [1,\n".repeat(size);
    let words = |size| format!("a = [{}]", "x, ".repeat(size));
    let strings = |size| "a = 'x\n".repeat(size);
    let texts: [&dyn Fn(usize) -> String; 6] =
        [&lists, &dicts, &lines, &unclosed, &words, &strings];
    for text in texts {
        check_growth(4_000, &|size| drop(rendered(text(size))));
    }
}

#[test]
fn five_megabytes_are_read() {
    let line = "scope/module.Configurable.argument = [1, 2.5, 'three', @f()]  # comment\n";
    let text = line.repeat(5_000_000 / line.len());
    let (statements, diagnostics) = parse(FileId(0), &text);
    assert_eq!((statements.len(), diagnostics.len()), (5_000_000 / line.len(), 0));
}
