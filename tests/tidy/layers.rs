//! Imports point down: `main > run > train, eval, infer > session > models > optim > partition > nn, launch`, and below
//! them the layers that are crates, for which the compiler checks the order.

use std::path::Path;

use crate::assert_none;
use crate::source::{Source, first_word, is_word, sources};

/// The layers from bottom to top: the folders that share the crate `gimlet`. Folders of one layer do
/// not use each other.
const LAYERS: [&[&str]; 8] = [
    &["nn", "launch"],
    &["partition"],
    &["optim"],
    &["models"],
    &["session"],
    &["train", "eval", "infer", "interactive", "export", "precompile"],
    &["serve"],
    &["run"],
];

#[test]
fn imports_point_down_only() {
    let mut breaches = Vec::new();
    for source in sources(&["src"]) {
        let own = own_module(&source.path).filter(|own| layer(own).is_some());
        let Some(own) = own else { continue };
        for (offset, target) in crate_paths(&source) {
            let is_beside = layer(&target) == layer(&own) && target != own;
            if is_beside || layer(&target) > layer(&own) {
                breaches.push(format!("{}: `{own}` uses `{target}`", source.place(offset)));
            }
        }
    }
    assert_none("a layer may use only layers below it (ARCHITECTURE.md)", breaches);
}

#[test]
fn every_folder_is_a_layer_or_a_crate() {
    let homeless = sources(&["src"])
        .iter()
        .filter_map(|source| own_module(&source.path))
        .filter(|module| layer(module).is_none() && !is_crate(module))
        .collect();
    assert_none("give the folder a layer in tests/tidy/layers.rs, or a Cargo.toml", homeless);
}

#[test]
fn paths_are_found_in_groups_and_alone() {
    let text = "use crate::{gin::{A, B}, data::C};\ntype D = crate::nn::E;".to_string();
    let source = Source { path: String::new(), code: text.clone(), text };
    let found: Vec<_> = crate_paths(&source).into_iter().map(|(_, target)| target).collect();
    assert_eq!(found, ["gin", "data", "nn"]);
}

/// The top module of a file of the library; none for the binaries and `lib.rs`.
pub fn own_module(path: &str) -> Option<String> {
    let inner = path.strip_prefix("src/")?;
    let first = inner.split('/').next()?.trim_end_matches(".rs");
    (!["main", "lib", "bin"].contains(&first)).then(|| first.to_string())
}

fn layer(module: &str) -> Option<usize> {
    LAYERS.iter().position(|layer| layer.contains(&module))
}

/// Whether a folder of `src` is a crate.
pub fn is_crate(folder: &str) -> bool {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src").join(folder).join("Cargo.toml").exists()
}

/// `(offset, module)` of each path that starts with `crate::`.
fn crate_paths(source: &Source) -> Vec<(usize, String)> {
    let code = &source.code;
    let mut found = Vec::new();
    for (offset, root) in code.match_indices("crate::") {
        if offset > 0 && is_word(code.as_bytes()[offset - 1]) {
            continue;
        }
        let rest = &code[offset + root.len()..];
        let heads = if rest.starts_with('{') { group_heads(rest) } else { vec![first_word(rest)] };
        found.extend(heads.into_iter().map(|head| (offset, head.to_string())));
    }
    found
}

/// The first words of the entries of `{a::b, c::{d, e}}`.
fn group_heads(group: &str) -> Vec<&str> {
    let (mut depth, mut expects, mut heads) = (0, false, Vec::new());
    for (offset, byte) in group.bytes().enumerate() {
        match byte {
            b'{' => depth += 1,
            b'}' => depth -= 1,
            b',' => {}
            _ if expects && is_word(byte) => {
                heads.push(first_word(&group[offset..]));
                expects = false;
            }
            _ => {}
        }
        match byte {
            b'{' | b',' if depth == 1 => expects = true,
            _ if depth == 0 => break,
            _ => {}
        }
    }
    heads
}
