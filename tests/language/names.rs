//! The characters that names and texts may have: those that gin-config, and so Python, accepts.

use gimlet::gin::{FileId, ValueKind, ast::StatementKind, parse};

use crate::golden::folder;

/// First and last code points.
type Ranges = Vec<(u32, u32)>;

#[test]
fn names_have_the_characters_that_they_have_in_gin_config() {
    let [first, rest, unassigned] = reference();
    let mut wrong = Vec::new();
    for c in characters() {
        let takes_first = is_name(&c.to_string());
        let takes_rest = is_name(&format!("a{c}")) && is_name(&format!("a{c}b"));
        // Characters that are newer than the reference may be letters.
        let known = !contains(&unassigned, c);
        if takes_first != contains(&first, c) || known && takes_rest != contains(&rest, c) {
            wrong.push(format!("U+{:04X}", u32::from(c)));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join(" "));
}

#[test]
fn texts_have_every_character_but_nul() {
    for c in characters().filter(|c| !matches!(c, '\0' | '\\' | '\n' | '\r' | '\'')) {
        let (statements, diagnostics) = parse(FileId(0), &format!("a = '{c}'  # {c}"));
        assert_eq!(diagnostics, [], "U+{:04X}", u32::from(c));
        let StatementKind::Macro(definition) = &statements[0].kind else { panic!("a macro") };
        assert_eq!(definition.value.kind, ValueKind::Str(c.to_string()));
    }
}

fn is_name(text: &str) -> bool {
    let (statements, _) = parse(FileId(0), &format!("{text}/{text}.{text} = @{text}"));
    let [statement] = &statements[..] else { return false };
    let StatementKind::Binding(target, argument) = &statement.kind else { return false };
    let value = argument.value.to_string();
    target.scope == [text]
        && target.selector == text
        && argument.name == text
        && value[1..] == *text
}

/// The Basic Multilingual Plane.
fn characters() -> impl Iterator<Item = char> {
    (0..0x10000).filter_map(char::from_u32)
}

fn contains(ranges: &Ranges, c: char) -> bool {
    let code = u32::from(c);
    let at = ranges.partition_point(|(_, last)| *last < code);
    ranges.get(at).is_some_and(|(first, _)| *first <= code)
}

/// Reads `names.json`: the characters a name starts with, its others, and those that the reference
/// does not have.
fn reference() -> [Ranges; 3] {
    let text = std::fs::read_to_string(folder("names.json")).expect("made by names.py");
    let all: serde_json::Value = serde_json::from_str(&text).expect("names.py writes JSON");
    ["first", "rest", "unassigned"]
        .map(|name| serde_json::from_value(all[name].clone()).expect("ranges of code points"))
}
