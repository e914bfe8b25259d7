//! Files that need each other in a circle can only be read together, so circles stay small.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::assert_none;
use crate::source::{Source, sources};
use crate::ties::{Ties, ties};

/// The most files that may need each other.
const MAX_FILES: usize = 4;

/// A larger circle that is known, with a reason. It may not grow.
struct Known {
    /// One of its files.
    file: &'static str,
    num_files: usize,
    reason: &'static str,
}

const KNOWN: [Known; 2] = [
    Known {
        file: "src/run/task/mod.rs",
        num_files: 7,
        reason: "the command names its subcommands, which share some arguments",
    },
    Known {
        file: "src/run/checkpoint/mod.rs",
        num_files: 9,
        reason: "the command names its subcommands, which share its errors and its progress",
    },
];

#[test]
fn no_circle_has_more_than_four_files() {
    let circles = all_circles();
    let is_new = |circle: &&Circle| {
        let known = KNOWN.iter().find(|known| circle.files.contains(known.file));
        circle.files.len() > known.map_or(MAX_FILES, |known| known.num_files)
    };
    let breaches = circles.iter().filter(is_new).map(|circle| circle.shown.clone()).collect();
    assert_none("move what both need to a file below them", breaches);
}

#[test]
fn every_known_circle_is_there() {
    let circles = all_circles();
    let is_there = |known: &&Known| circles.iter().any(|it| it.files.contains(known.file));
    let gone = KNOWN.iter().filter(|known| !is_there(known));
    let gone = gone.map(|known| format!("{}: {}", known.file, known.reason)).collect();
    assert_none("a circle is gone: take it out of the list", gone);
}

/// Files that need each other.
struct Circle {
    files: BTreeSet<String>,
    /// The files and their ties, for messages.
    shown: String,
}

/// The circles of more than four files, in all crates.
fn all_circles() -> Vec<Circle> {
    let (own, layers): (Vec<_>, Vec<_>) =
        sources(&["src"]).into_iter().partition(|source| folder_with_manifest(source).is_none());
    let folders: BTreeSet<_> = layers.iter().filter_map(folder_with_manifest).collect();
    let mut circles = large_circles(&ties("src", &own));
    for folder in folders {
        circles.extend(large_circles(&ties(&folder, &sources(&[&folder]))));
    }
    circles
}

/// The folder of the crate of a layer that a file belongs to.
fn folder_with_manifest(source: &Source) -> Option<String> {
    let name = source.path.split('/').nth(1)?;
    let folder = format!("src/{name}");
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join(&folder).join("Cargo.toml");
    manifest.exists().then_some(folder)
}

fn large_circles(ties: &Ties) -> Vec<Circle> {
    let reached: BTreeMap<_, _> = ties.keys().map(|file| (&file[..], reach(ties, file))).collect();
    let circle = |file: &str| -> BTreeSet<&str> {
        let needed = reached[file].iter().copied();
        needed.filter(|other| reached[other].contains(file)).collect()
    };
    let mut circles: BTreeSet<_> = ties.keys().map(|file| circle(file)).collect();
    circles.retain(|circle| circle.len() > MAX_FILES);
    let named = |files: BTreeSet<&str>| Circle {
        shown: describe(ties, &files),
        files: files.into_iter().map(str::to_string).collect(),
    };
    circles.into_iter().map(named).collect()
}

/// The files that a file needs, itself or through others.
fn reach<'a>(ties: &'a Ties, file: &'a str) -> BTreeSet<&'a str> {
    let mut found = BTreeSet::new();
    let mut open = vec![file];
    while let Some(file) = open.pop() {
        let needed = ties.get(file).into_iter().flat_map(|needed| needed.keys());
        open.extend(needed.map(String::as_str).filter(|file| found.insert(*file)));
    }
    found
}

fn describe(ties: &Ties, circle: &BTreeSet<&str>) -> String {
    let mut lines = vec![format!("{} files in a circle:", circle.len())];
    for file in circle {
        let inside = ties[*file].iter().filter(|(other, _)| circle.contains(&other[..]));
        lines.extend(inside.map(|(other, names)| {
            let names: Vec<_> = names.iter().map(String::as_str).collect();
            format!("  {file} -> {other}: {}", names.join(", "))
        }));
    }
    lines.join("\n  ")
}
