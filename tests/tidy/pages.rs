//! Generated pages are up to date.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use gimlet::gin::reference;
use gimlet::run::{REFERENCE_PAGES, documented_registry};

use crate::assert_none;

#[test]
fn the_pages_of_configurables_are_current() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs");
    let expected = reference(&documented_registry(), &REFERENCE_PAGES);
    let mut breaches = Vec::new();
    for (path, page) in &expected {
        let found = fs::read_to_string(docs.join(path)).unwrap_or_default();
        breaches.extend(difference(&found, page).map(|text| format!("docs/{path}:{text}")));
    }
    for file in fs::read_dir(docs.join("configurables")).expect("the pages are committed") {
        let name = file.expect("it is readable").file_name();
        let path = format!("configurables/{}", name.display());
        if !expected.contains_key(&path) {
            breaches.push(format!("docs/{path} is none of the pages: remove it"));
        }
    }
    assert_none("`gimlet gin reference` writes these pages again", breaches);
}

/// Returns the first line that differs, and both forms of it.
fn difference(found: &str, expected: &str) -> Option<String> {
    let mut lines = found.split('\n').zip(expected.split('\n')).enumerate();
    let differing = lines.find(|(_, (found, expected))| found != expected);
    let end = || (found != expected).then_some((found.lines().count(), ("the end", "more lines")));
    let (index, (found, expected)) = differing.or_else(end)?;
    Some(format!("{}:\n    found    {found}\n    expected {expected}", index + 1))
}

#[test]
fn every_module_that_a_page_of_configurables_names_declares_some() {
    let registry = documented_registry();
    let declaring: BTreeSet<_> = registry.iter().map(|schema| schema.declared_in).collect();
    let unused = REFERENCE_PAGES
        .iter()
        .flat_map(|page| page.modules)
        .filter(|module| !declaring.iter().any(|declaring| declaring.starts_with(*module)))
        .map(|module| format!("`{module}` declares none"))
        .collect();
    assert_none("src/run/gin/reference.rs names modules that have moved", unused);
}
