//! `editors/gin.tmLanguage.json`: the patterns by which editors colour gin.
//!
//! Editors' own engine (vscode-textmate) is not at hand here; this checks the patterns one by one.

use std::collections::BTreeSet;

use fancy_regex::Regex;
use serde_json::Value;

#[test]
fn every_pattern_is_one_and_every_include_is_there() {
    let grammar = grammar();
    let rules: BTreeSet<&String> =
        grammar["repository"].as_object().expect("rules").keys().collect();
    let mut included = BTreeSet::new();
    visit(&grammar, &mut |key, value| match (key, value.as_str()) {
        ("match" | "begin" | "end", Some(pattern)) => {
            Regex::new(pattern).unwrap_or_else(|error| panic!("{pattern}: {error}"));
        }
        ("include", Some(rule)) => {
            included.insert(rule.trim_start_matches('#').to_string());
        }
        _ => {}
    });
    assert_eq!(included.iter().collect::<BTreeSet<_>>(), rules);
}

#[test]
fn patterns_match_what_they_are_for() {
    check("import", "import a.b as c", &["import", "a.b", "as", "c"]);
    check("from-import", "from a.b import c as d", &["from", "a.b", "import", "c", "as", "d"]);
    check("include", "include 'a'", &["include"]);
    check("block", "  s/a.b:  # x", &["s/", "a.b", ":"]);
    check("binding", "s/t/a.b.c =", &["s/t/", "a.b", "c", "="]);
    check("macro-definition", "s/NAME=1", &["s/", "NAME", "="]);
    check("argument", "  x = 1", &["x", "="]);
    check("reference", "@s/t.u/a.b ( )", &["@", "s/t.u/", "a.b", " ( )"]);
    check("macro", "% s/NAME", &["%", "s/", "NAME"]);
    check("string-plain-single", "b'", &["b", "'"]);
    check("string-raw-block-double", "Rb\"\"\"", &["Rb", "\"\"\""]);
    check("string-interpolated-double", "f\"", &["f", "\""]);
    for number in ["0", "1_0", "0x_fF", "0B1", "1.", ".5", "1.5e-10", "2E3", "3j", "1_0.0_1e1_0J"] {
        check("number", number, &[]);
    }
    for escape in [r"\n", r"\'", r"\0", r"\377", r"\xff", r"\u00e9", r"\U0001F600", r"\N{BULLET}"] {
        check("escape", escape, &[]);
    }
}

#[test]
fn patterns_leave_what_they_are_not_for() {
    for (rule, text) in [
        ("import", "import = 1"),
        ("from-import", "from.a = 1"),
        ("include", "include = 1"),
        ("block", "a: 1"),
        ("macro-definition", "  x = 1"),
        ("macro-definition", "a.b = 1"),
        ("number", "a1"),
        ("number", "1x"),
        ("constant", "Nonesuch"),
        ("string-plain-single", "f'"),
        ("escape", r"\d"),
    ] {
        let found = pattern(rule).find(text).expect("the pattern ends");
        assert!(found.is_none(), "{rule} matches {text}");
    }
}

/// A rule's pattern matches the whole text, with these groups, in order, as far as they matched.
#[track_caller]
fn check(rule: &str, text: &str, groups: &[&str]) {
    let found = pattern(rule).captures(text).expect("the pattern ends");
    let found = found.unwrap_or_else(|| panic!("{rule} does not match {text}"));
    let texts: Vec<&str> = found.iter().skip(1).flatten().map(|group| group.as_str()).collect();
    assert_eq!(texts, groups, "{rule}: {text}");
    if groups.is_empty() {
        assert_eq!(found.get(0).map(|all| all.as_str()), Some(text), "{rule}");
    }
}

fn pattern(rule: &str) -> Regex {
    let rule = &grammar()["repository"][rule];
    let pattern =
        rule["match"].as_str().or(rule["begin"].as_str()).expect("the rule has a pattern");
    Regex::new(pattern).expect("another test says that it is one")
}

fn grammar() -> Value {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/editors/gin.tmLanguage.json");
    let text = std::fs::read_to_string(path).expect("the grammar is committed");
    serde_json::from_str(&text).expect("the grammar is JSON")
}

/// Shows every value within a value, and the key under which it stands.
fn visit(value: &Value, show: &mut impl FnMut(&str, &Value)) {
    match value {
        Value::Object(fields) => fields.iter().for_each(|(key, value)| {
            show(key, value);
            visit(value, show);
        }),
        Value::Array(items) => items.iter().for_each(|item| visit(item, show)),
        _ => {}
    }
}
