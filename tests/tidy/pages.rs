//! Generated pages are up to date.

use std::fs;
use std::path::Path;

use gimlet::gin::reference;
use gimlet::run::documented_registry;

#[test]
fn the_page_of_configurables_is_current() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/configurables.md");
    let page = fs::read_to_string(path).expect("the page is committed");
    let expected = reference(&documented_registry());
    let mut lines = page.lines().zip(expected.lines()).enumerate();
    if let Some((index, (found, expected))) = lines.find(|(_, (found, new))| found != new) {
        let line = index + 1;
        panic!(
            "docs/configurables.md:{line} is out of date: `gimlet gin reference` writes it again\n\
             found    {found}\nexpected {expected}"
        );
    }
    assert_eq!(page.len(), expected.len(), "docs/configurables.md is stale at its end");
}
