//! Runs the examples of docs/gin.md as a reader would.

use std::fs;
use std::path::Path;

use crate::play::played;

#[test]
fn the_guide_shows_what_the_program_does() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/gin.md");
    let page = fs::read_to_string(&path).expect("the guide is there");
    let folder = tempfile::tempdir().expect("a temporary folder");
    crate::golden::compare(&path, &played(&page, folder.path()));
}
