//! Error messages for wrong texts. Each case of `errors/*.gin` is a separate text; a line
//! `### name` starts it. The name is the name of the text, so that the name of a flag shows the
//! flag's remedy.

use gimlet::gin::{Diagnostics, SourceFile, SourceMap, parse};

use crate::golden;

#[test]
fn mistakes_are_explained() {
    for case in golden::cases("errors") {
        let text = std::fs::read_to_string(&case).expect("the case is readable");
        let shown: String = text.split("### ").skip(1).map(explained).collect();
        golden::check(&case, &shown);
    }
}

fn explained(case: &str) -> String {
    let (name, text) = case.split_once('\n').expect("a case starts with its name");
    let text = text.trim_end_matches('\n').replace("<TAB>", "\t").replace("<BOM>", "\u{feff}");
    let mut sources = SourceMap::default();
    let name = name.to_string();
    let file = sources.add(SourceFile { name, text: text.clone(), included_from: None });
    let list = parse(file, &text).1;
    assert!(!list.is_empty(), "nothing is wrong with {text}");
    Diagnostics { sources, list }.render(false)
}
