//! Files that need each other in a circle can only be read together, so circles stay small.

use std::collections::{BTreeMap, BTreeSet};

use crate::assert_none;
use crate::layers::{is_crate, own_module};
use crate::source::{Source, sources};
use crate::ties::{Ties, ties};

/// The most files that may need each other.
const MAX_FILES: usize = 4;

#[test]
fn no_circle_has_more_than_four_files() {
    let (own, layers): (Vec<_>, Vec<_>) =
        sources(&["src"]).into_iter().partition(|source| crate_folder(source).is_none());
    let folders: BTreeSet<_> = layers.iter().filter_map(crate_folder).collect();
    let mut breaches = large_circles(&ties("src", &own));
    for folder in folders {
        breaches.extend(large_circles(&ties(&folder, &sources(&[&folder]))));
    }
    assert_none("move what both need to a file below them", breaches);
}

/// The folder of the crate of a layer that a file belongs to.
fn crate_folder(source: &Source) -> Option<String> {
    let folder = own_module(&source.path).filter(|module| is_crate(module))?;
    Some(format!("src/{folder}"))
}

/// The files and ties of each circle of more than four files.
fn large_circles(ties: &Ties) -> Vec<String> {
    let reached: BTreeMap<_, _> = ties.keys().map(|file| (&file[..], reach(ties, file))).collect();
    let circle = |file: &str| -> BTreeSet<&str> {
        let needed = reached[file].iter().copied();
        needed.filter(|other| reached[other].contains(file)).collect()
    };
    let mut circles: BTreeSet<_> = ties.keys().map(|file| circle(file)).collect();
    circles.retain(|circle| circle.len() > MAX_FILES);
    circles.iter().map(|circle| describe(ties, circle)).collect()
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
