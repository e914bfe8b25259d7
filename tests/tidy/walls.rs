//! The torch wall: most of the library compiles and passes its tests without libtorch.

use crate::assert_none;
use crate::source::{Source, is_word, sources};

#[test]
fn a_spec_names_no_tch() {
    let specs = sources(&["src"]).into_iter().filter(|source| source.path.ends_with("/spec.rs"));
    let breaches = specs.flat_map(|source| words(&source, "tch")).collect();
    assert_none("a spec.rs compiles without libtorch", breaches);
}

#[test]
fn the_feature_is_asked_for_where_modules_are_declared_only() {
    let mut breaches = Vec::new();
    for source in sources(&["src"]) {
        if source.path.ends_with("/mod.rs") || source.path.ends_with("/lib.rs") {
            continue;
        }
        // A command is one file: the call of its body stands there in a module of its own.
        let num_allowed = usize::from(source.path.starts_with("src/run/commands/"));
        for (offset, _) in source.text.match_indices("feature = \"torch\"").skip(num_allowed) {
            breaches.push(source.place(offset));
        }
    }
    assert_none(
        "`cfg(feature = \"torch\")` belongs into mod.rs and lib.rs, and once into a command",
        breaches,
    );
}

/// Returns the places of a word in the code.
fn words(source: &Source, word: &str) -> Vec<String> {
    let bytes = source.code.as_bytes();
    let bounded = |offset: usize| {
        let before = offset.checked_sub(1).map(|at| bytes[at]);
        let after = bytes.get(offset + word.len()).copied();
        !before.is_some_and(is_word) && !after.is_some_and(is_word)
    };
    let found = source.code.match_indices(word).filter(|(offset, _)| bounded(*offset));
    found.map(|(offset, _)| source.place(offset)).collect()
}
