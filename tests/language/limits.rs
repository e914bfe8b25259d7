//! Large and hostile texts take time in proportion to their length, and no stack.

use std::time::{Duration, Instant};

use gimlet::gin::{Diagnostics, FileId, SourceFile, SourceMap, parse};

/// Reads a text and shows what is wrong with it.
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
        let time = |size| {
            let text = text(size);
            let start = Instant::now();
            rendered(text);
            start.elapsed()
        };
        let least = |size| (0..3).map(|_| time(size)).min().expect("three runs");
        let (small, large) = (least(4_000), least(40_000));
        // Ten times the text takes ten times as long; quadratic code takes a hundred times.
        let limit = 40 * small + Duration::from_millis(200);
        assert!(large < limit, "{small:?} grew to {large:?}: {}", text(2));
    }
}

#[test]
fn five_megabytes_are_read() {
    let line = "scope/module.Configurable.argument = [1, 2.5, 'three', @f()]  # comment\n";
    let text = line.repeat(5_000_000 / line.len());
    let (statements, diagnostics) = parse(FileId(0), &text);
    assert_eq!((statements.len(), diagnostics.len()), (5_000_000 / line.len(), 0));
}
