//! Runs every command of README.md and docs/ as a reader would, in one folder, in which the
//! tutorial docs/first_run.md is played first: the other pages use its files.

use std::fs;
use std::path::Path;

use crate::golden::compare;
use crate::play::played;

/// The first pages, in this order. The others follow in the order of their names.
const FIRST: [&str; 2] = ["docs/first_run.md", "README.md"];
/// A page that the tests of the language play, and one that the program writes.
const ELSEWHERE: [&str; 2] = ["docs/gin.md", "docs/configurables.md"];

#[test]
fn the_commands_of_all_pages_work_and_print_what_the_pages_say() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut others: Vec<String> = ["docs", "docs/guides"]
        .into_iter()
        .flat_map(|folder| pages_of(root, folder))
        .filter(|page| ![&FIRST[..], &ELSEWHERE].concat().contains(&page.as_str()))
        .collect();
    others.sort();
    let folder = tempfile::tempdir().expect("a temporary folder");
    for page in FIRST.map(str::to_owned).into_iter().chain(others) {
        let path = root.join(&page);
        let text = fs::read_to_string(&path).expect("the page is there");
        compare(&path, &played(&text, folder.path()));
    }
}

fn pages_of(root: &Path, folder: &str) -> Vec<String> {
    let entries = fs::read_dir(root.join(folder)).expect("the folder is there");
    let names = entries.map(|entry| entry.expect("it is readable").file_name());
    let paths = names.map(|name| format!("{folder}/{}", name.display()));
    paths.filter(|path| path.ends_with(".md")).collect()
}
