//! Compares the texts that gin-config accepts and refuses, and their meaning, statement by
//! statement.

use gimlet::gin::ast::{Argument, Statement, StatementKind, Target};
use gimlet::gin::{FileId, Severity, parse};
use serde_json::{Value, json};

use crate::golden::folder;

#[test]
fn texts_mean_what_they_mean_to_gin_config() {
    let text = std::fs::read_to_string(folder("accept.json")).expect("made by reference.py");
    let cases: Vec<Value> = serde_json::from_str(&text).expect("reference.py writes JSON");
    let wrong: Vec<String> = cases.iter().filter_map(difference).collect();
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
}

/// Returns a difference in meaning; for a case with an intended difference, its absence.
fn difference(case: &Value) -> Option<String> {
    let text = case["text"].as_str().expect("a case has a text");
    // Python's own `repr` of `-1.5j` is a sum, which gin does not read back.
    let expected = &case["meaning"].to_string().replace("(-0-1.5j)", "-1.5j");
    let expected = &serde_json::from_str::<Value>(expected).expect("it was JSON");
    let found = meaning(text);
    let different = case.get("different").is_some();
    if (found == *expected) == different {
        return Some(format!("{text:?}\n  found    {found}\n  expected {expected}"));
    }
    None
}

/// Computes the same as `meaning` of `reference.py`.
fn meaning(text: &str) -> Value {
    let (statements, diagnostics) = parse(FileId(0), text);
    if diagnostics.iter().any(|diagnostic| diagnostic.severity == Severity::Error) {
        return Value::Null;
    }
    statements.iter().flat_map(lines).collect()
}

fn lines(statement: &Statement) -> Vec<Value> {
    match &statement.kind {
        StatementKind::Binding(target, argument) => vec![bound(target, argument)],
        StatementKind::Block(target, arguments) => {
            let head = json!(["block", target.scope.join("/"), target.selector]);
            std::iter::once(head).chain(arguments.iter().map(|a| bound(target, a))).collect()
        }
        StatementKind::Macro(definition) => {
            let (scope, name) = definition.path.rsplit_once('/').unwrap_or(("", &definition.path));
            vec![json!(["bind", scope, name, "", printed(&definition.value)])]
        }
        StatementKind::Import(import) => vec![json!(["import", import.to_string()])],
        StatementKind::Include(include) => vec![json!(["include", include.path])],
    }
}

fn bound(target: &Target, argument: &Argument) -> Value {
    let scope = target.scope.join("/");
    json!(["bind", scope, target.selector, argument.name, printed(&argument.value)])
}

/// Infinity, which has no literal in Python, prints as one that reads back.
fn printed(value: &gimlet::gin::Value) -> String {
    value.to_string().replace("1e999", "inf")
}
