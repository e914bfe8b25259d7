//! No text makes the parser panic or hang; what it reads it prints so that it reads the same again,
//! and lays out so that doing so again changes nothing; and what is wrong can be shown.

#![no_main]

use gimlet_gin::ast::{Statement, StatementKind};
use gimlet_gin::{
    Diagnostics, FileId, Severity, SourceFile, SourceMap, Value, ValueKind, format, parse,
    parse_value,
};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let mut sources = SourceMap::default();
    let source =
        SourceFile { name: "a.gin".to_string(), text: text.to_string(), included_from: None };
    let file = sources.add(source);
    let (statements, list) = parse(file, text);
    for statement in &statements {
        assert!(text.get(statement.span.start..statement.span.end).is_some(), "{statement:?}");
        values(statement).into_iter().for_each(reads_back);
    }
    if list.iter().all(|diagnostic| diagnostic.severity != Severity::Error) {
        let formatted = format(text).expect("correct text can be laid out");
        assert_eq!(format(&formatted).as_ref(), Ok(&formatted));
    }
    Diagnostics { sources, list }.render(false);
});

fn values(statement: &Statement) -> Vec<&Value> {
    match &statement.kind {
        StatementKind::Binding(_, argument) => vec![&argument.value],
        StatementKind::Block(_, arguments) => arguments.iter().map(|a| &a.value).collect(),
        StatementKind::Macro(definition) => vec![&definition.value],
        StatementKind::Import(_) | StatementKind::Include(_) => Vec::new(),
    }
}

fn reads_back(value: &Value) {
    let printed = value.to_string();
    match parse_value(FileId(0), &printed) {
        Ok(again) => assert_eq!(again.to_string(), printed),
        // gin has no literal for a complex number with a real part, nor for nan.
        Err(_) => assert!(has_no_literal(value), "{printed}"),
    }
}

fn has_no_literal(value: &Value) -> bool {
    let mut found = false;
    value.for_each(&mut |leaf| found |= matches!(leaf.kind, ValueKind::Complex(..)));
    found
}
