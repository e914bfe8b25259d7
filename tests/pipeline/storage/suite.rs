//! The common behaviour of all places: one set of checks for disk and buckets, and its reading part
//! for the web.

use std::io::{Read, Write};
use std::ops::Range;

use gimlet::storage::{Locked, Path};

use super::{PART, noise, path};

fn names(paths: &[Path]) -> Vec<&str> {
    paths.iter().map(Path::file_name).collect()
}

/// Checks everything below an empty folder of the place.
pub fn check(root: &str) {
    let root = path(root);
    files(&root.join("files"));
    folders(&root.join("folders"));
    globs(&root.join("globs"));
    large(&root.join("large"));
}

/// Runs the part of the checks that only reads, for places that cannot be written. The root
/// contains the files of [`READ_ONLY`], and `large` bytes under that name.
pub fn check_reading(root: &str, large: &[u8]) {
    let root = path(root);
    let [(second, _), (nothing, _)] = READ_ONLY;
    small(&root.join(second));
    empty(&root.join(nothing));
    absent(&root.join("none"));
    let end = large.len();
    ranges(&root.join("large"), large, &[0..9, end / 2 - PART..end / 2 + PART, end - 9..end]);
}

/// The small files of a read-only place.
pub const READ_ONLY: [(&str, &[u8]); 2] = [("second.txt", b"second"), ("empty", b"")];

fn absent(file: &Path) {
    assert!(!file.exists().unwrap() && !file.is_dir().unwrap());
    assert!(file.read().unwrap_err().is_not_found());
    assert!(file.read_range(0..1).unwrap_err().is_not_found());
    assert!(file.size().unwrap_err().is_not_found());
    assert!(file.open_ranges().map(drop).unwrap_err().is_not_found());
    assert!(file.open().map(drop).unwrap_err().is_not_found());
}

/// Checks a file that contains "second".
fn small(file: &Path) {
    assert_eq!(file.read_to_string().unwrap(), "second");
    assert_eq!((file.size().unwrap(), file.exists().unwrap()), (6, true));
    assert!(file.modified().unwrap().elapsed().is_ok() && !file.is_dir().unwrap());
    let mut rest = String::new();
    file.open_at(2).unwrap().read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "cond");
    assert_eq!(file.read_range(1..3).unwrap(), b"ec");
    assert!(file.read_range(5..8).unwrap_err().to_string().contains("1 of the 3 bytes"));
    assert_eq!(file.open_ranges().unwrap().read_all(&[4..6, 0..1]).unwrap(), [&b"nd"[..], b"s"]);
}

fn empty(file: &Path) {
    assert_eq!((file.read().unwrap(), file.size().unwrap()), (Vec::new(), 0));
}

fn ranges(file: &Path, bytes: &[u8], ranges: &[Range<usize>]) {
    assert_eq!(file.size().unwrap(), bytes.len() as u64);
    for range in ranges {
        let read = file.read_range(range.start as u64..range.end as u64).unwrap();
        assert!(read == bytes[range.clone()], "{range:?}");
    }
}

fn files(folder: &Path) {
    let file = folder.join("a b.txt");
    assert!(!folder.is_dir().unwrap());
    absent(&file);
    folder.create_dir_all().unwrap();
    file.write_atomic(b"one").unwrap();
    file.create_atomic().unwrap().write_all(b"not finished").unwrap();
    replace(&file, b"other");
    replace(&file, b"second");
    small(&file);

    let log = folder.join("log");
    for text in ["a", "bc", ""] {
        let mut writer = log.append().unwrap();
        writer.write_all(text.as_bytes()).unwrap();
        writer.finish().unwrap();
    }
    assert_eq!(log.read().unwrap(), b"abc");
    log.rename(&folder.join("moved")).unwrap();
    assert!(!log.exists().unwrap());
    assert_eq!(folder.join("moved").read().unwrap(), b"abc");
    folder.join("empty").write_atomic(b"").unwrap();
    empty(&folder.join("empty"));
    folder.join("empty").remove_file().unwrap();
    assert_eq!(names(&folder.list().unwrap()), ["a b.txt", "moved"]);
    assert!(!matches!(folder.try_lock().unwrap(), Locked::Busy));
}

fn replace(file: &Path, bytes: &[u8]) {
    let mut writer = file.create_atomic().unwrap();
    writer.write_all(bytes).unwrap();
    assert_ne!(file.read().unwrap(), bytes, "nobody reads a file that is not finished");
    writer.finish().unwrap();
    assert_eq!(file.read().unwrap(), bytes);
}

fn folders(folder: &Path) {
    for name in ["x/1", "x/y/2", "z", "x-"] {
        let file = folder.join(name);
        file.parent().unwrap().create_dir_all().unwrap();
        file.write_atomic(b"?").unwrap();
    }
    let entries = folder.entries().unwrap();
    let kinds: Vec<_> = entries.iter().map(|e| (e.path.file_name(), e.is_dir)).collect();
    assert_eq!(kinds, [("x", true), ("x-", false), ("z", false)]);
    let walked: Vec<_> = folder.walk().unwrap();
    assert_eq!(walked, ["x-", "x/1", "x/y/2", "z"].map(|name| folder.join(name)));
    assert!(folder.join("x").is_dir().unwrap() && folder.join("x/y").exists().unwrap());
    assert!(folder.join("none").list().unwrap_err().is_not_found());
    assert!(folder.join("x/y").create_dir_new().is_err());
    folder.sync_tree().unwrap();
    folder.join("x").remove_dir_all().unwrap();
    assert_eq!(names(&folder.list().unwrap()), ["x-", "z"]);
}

fn globs(folder: &Path) {
    for name in ["a/t-1.txt", "a/t-2.txt", "b/t-1.txt", "b/c/t-3.txt", "b/info.json", "t-0.txt"] {
        let file = folder.join(name);
        file.parent().unwrap().create_dir_all().unwrap();
        file.write_atomic(b"").unwrap();
    }
    let check = |pattern: &str, expected: &[&str]| {
        let found = Path::glob(folder.join(pattern).as_str()).unwrap();
        let expected: Vec<_> = expected.iter().map(|name| folder.join(name)).collect();
        assert_eq!(found, expected, "{pattern}");
    };
    check("*.txt", &["t-0.txt"]);
    check("a/t-?.txt", &["a/t-1.txt", "a/t-2.txt"]);
    check("*/t-[12].txt", &["a/t-1.txt", "a/t-2.txt", "b/t-1.txt"]);
    check("*/info.json", &["b/info.json"]);
    check("*/c/*", &["b/c/t-3.txt"]);
    check("**/t-*.txt", &["a/t-1.txt", "a/t-2.txt", "b/c/t-3.txt", "b/t-1.txt", "t-0.txt"]);
    check("b/info.json", &["b/info.json"]);
    check("none-*", &[]);
    super::globs::check(&folder.join("odd"));
}

/// More than one part of an upload.
fn large(folder: &Path) {
    folder.create_dir_all().unwrap();
    let bytes = noise(1_000_003).repeat(34);
    let file = folder.join("large");
    let mut writer = file.create().unwrap();
    for chunk in bytes.chunks(1_000_000) {
        writer.write_all(chunk).unwrap();
    }
    writer.finish().unwrap();
    // The boundaries between the parts of the upload, and the end.
    ranges(&file, &bytes, &[(16 << 20) - 9..(16 << 20) + 9, (32 << 20) - 9..bytes.len()]);
    let mut abandoned = folder.join("abandoned").create().unwrap();
    abandoned.write_all(b"x").unwrap();
}

#[test]
fn disk_does_what_all_places_do() {
    let dir = tempfile::tempdir().unwrap();
    check(dir.path().to_str().unwrap());
    check(&format!("file://{}/again", dir.path().display()));
}
