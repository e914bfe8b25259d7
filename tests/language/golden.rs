//! `case.golden` beside `case.gin` has the expected output. `UPDATE_GOLDEN=1` rewrites them.

use std::fs;
use std::path::{Path, PathBuf};

/// The folder of the language's test data.
pub fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/language").join(name)
}

/// The `case.gin` files of a folder, sorted.
pub fn cases(name: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder(name)).expect("the folder exists");
    let paths = entries.map(|entry| entry.expect("the folder is readable").path());
    let mut cases: Vec<_> =
        paths.filter(|path| path.extension().is_some_and(|e| e == "gin")).collect();
    cases.sort();
    assert!(!cases.is_empty(), "no cases in {name}");
    cases
}

/// Compares with the golden of a case.
#[track_caller]
pub fn check(case: &Path, found: &str) {
    compare(&case.with_extension("golden"), found);
}

/// Compares with a file.
#[track_caller]
pub fn compare(golden: &Path, found: &str) {
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        fs::write(golden, found).expect("the golden is writable");
    }
    let expected = fs::read_to_string(golden).unwrap_or_default();
    let differs =
        found.lines().zip(expected.lines()).position(|(found, expected)| found != expected);
    let line = differs.unwrap_or(found.lines().count().min(expected.lines().count()));
    let from = |text: &str| text.lines().skip(line).take(6).collect::<Vec<_>>().join("\n");
    assert!(
        found == expected,
        "{}:{} (UPDATE_GOLDEN=1 rewrites it)\nfound\n{}\nexpected\n{}",
        golden.display(),
        line + 1,
        from(found),
        from(&expected)
    );
}
