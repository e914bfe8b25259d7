//! Patterns, compared with Python's `glob` over trees of odd names.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path as LocalPath;

use gimlet::storage::{Path, set_path_map};
use proptest::prelude::*;

use super::path;

/// A tree, and the names that Python finds in it.
#[derive(serde::Deserialize)]
struct Tree {
    names: Vec<String>,
    found: BTreeMap<String, Vec<String>>,
}

fn tree(name: &str) -> Tree {
    let mut trees: BTreeMap<String, Tree> =
        serde_json::from_str(include_str!("python_glob.json")).unwrap();
    trees.remove(name).unwrap()
}

/// The tree with empty folders and links, on disk.
fn odd() -> (tempfile::TempDir, Tree) {
    let (dir, tree) = (tempfile::tempdir().unwrap(), tree("odd"));
    for name in &tree.names {
        let (name, target) =
            name.split_once(" -> ").map_or((&name[..], None), |(n, t)| (n, Some(t)));
        let place = dir.path().join(name);
        fs::create_dir_all(place.parent().unwrap()).unwrap();
        match target {
            Some(target) => symlink(target, &place).unwrap(),
            None if name.ends_with('/') => fs::create_dir_all(&place).unwrap(),
            None => fs::write(&place, "").unwrap(),
        }
    }
    (dir, tree)
}

fn sorted(mut paths: Vec<Path>) -> Vec<Path> {
    paths.sort_unstable();
    paths.dedup();
    paths
}

/// Returns the paths that Python finds for the pattern below a folder. The names in the table are
/// those within the folder, without the folder itself.
fn expected(folder: &Path, pattern: &str, names: &[String]) -> Vec<Path> {
    let itself = pattern.split('/').all(|part| matches!(part, "" | "." | "**"));
    let names = names.iter().map(|name| folder.join(name));
    sorted(names.chain(itself.then(|| folder.clone())).collect())
}

/// Compares every pattern below an empty folder of any place with Python's names.
pub fn check(folder: &Path) {
    let tree = tree("plain");
    for name in &tree.names {
        let file = folder.join(name);
        file.parent().unwrap().create_dir_all().unwrap();
        file.write_atomic(b"").unwrap();
    }
    for (pattern, names) in &tree.found {
        let expected = expected(folder, pattern, names);
        assert_eq!(Path::glob(&format!("{folder}/{pattern}")).unwrap(), expected, "{pattern}");
        assert_eq!(folder.glob_below(pattern).unwrap(), expected, "{pattern} below");
    }
}

#[test]
fn patterns_match_as_in_python_however_their_folder_is_written() {
    let (dir, tree) = odd();
    let root = dir.path().to_str().unwrap();
    let upwards = "../".repeat(std::env::current_dir().unwrap().components().count() - 1);
    let relative = format!("{upwards}{}", root.trim_start_matches('/'));
    set_path_map(vec![("gs://odd-globs".to_string(), format!("./{relative}//"))]).unwrap();
    let written = [
        root.to_string(),
        format!("file://{root}"),
        root.replace('/', "//./"),
        relative.clone(),
        format!(".//{relative}"),
        "gs://odd-globs".to_string(),
    ];
    for start in &written {
        for (pattern, names) in &tree.found {
            if start.starts_with("gs://") && pattern.contains("..") {
                Path::glob(&format!("{start}/{pattern}")).unwrap_err();
                continue;
            }
            let expected = expected(&path(start), pattern, names);
            let found = Path::glob(&format!("{start}/{pattern}")).unwrap();
            assert_eq!(found, expected, "{pattern} in {start}");
            assert!(found.iter().all(|path| path.file_name() == "gone" || path.exists().unwrap()));
        }
    }
}

#[test]
fn a_bare_pattern_is_of_the_current_folder() {
    for pattern in ["Carg?.toml", "./Carg?.toml", ".//Cargo.toml", "./src/../Cargo.tom*"] {
        let found = Path::glob(pattern).unwrap();
        assert_eq!(found.len(), 1, "{pattern}");
        assert_eq!(found[0].file_name(), "Cargo.toml");
        assert!(found[0].read_to_string().unwrap().contains("[package]"));
    }
    assert_eq!(Path::glob("./Carg?.toml").unwrap(), [path("Cargo.toml")]);
    assert_eq!(Path::glob(".").unwrap(), [path(".")]);
}

#[test]
fn links_that_go_round_are_followed_once() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("a")).unwrap();
    fs::write(dir.path().join("a/b.txt"), "").unwrap();
    symlink("..", dir.path().join("a/up")).unwrap();
    symlink("round", dir.path().join("round")).unwrap();
    let root = Path::try_from(dir.path()).unwrap();
    assert_eq!(root.glob_below("**/*.txt").unwrap(), [root.join("a/b.txt")]);
    assert_eq!(root.glob_below("a/up/a/*.txt").unwrap(), [root.join("a/up/a/b.txt")]);
}

/// All names below a folder, through links, and whether they are folders.
fn all(folder: &LocalPath, base: &str, names: &mut Vec<(String, bool)>) {
    for entry in fs::read_dir(folder.join(base)).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let name = if base.is_empty() { name } else { format!("{base}/{name}") };
        let is_dir = folder.join(&name).is_dir();
        names.push((name.clone(), is_dir));
        if is_dir {
            all(folder, &name, names);
        }
    }
}

/// Implements Python's `fnmatch` of one component, from its documentation.
fn fnmatch(pattern: &[char], name: &[char]) -> bool {
    let Some((first, rest)) = pattern.split_first() else { return name.is_empty() };
    let class = || {
        let start = if pattern.get(1) == Some(&'!') { 2 } else { 1 };
        let end = pattern.iter().skip(start + 1).position(|c| *c == ']')? + start + 1;
        Some((&pattern[start..end], start == 2, &pattern[end + 1..]))
    };
    match (first, name.split_first()) {
        ('*', _) => (0..=name.len()).any(|skipped| fnmatch(rest, &name[skipped..])),
        (_, None) => false,
        ('?', Some((_, after))) => fnmatch(rest, after),
        ('[', Some((c, after))) if class().is_some() => {
            let (set, is_negated, rest) = class().unwrap();
            set.contains(c) != is_negated && fnmatch(rest, after)
        }
        (_, Some((c, after))) => first == c && fnmatch(rest, after),
    }
}

/// Whether Python's `glob` with `recursive=True` names this file or folder, from its documentation.
fn is_named(pattern: &[&str], name: &[&str], is_dir: bool) -> bool {
    let is_hidden = |name: &str| name.starts_with('.');
    let chars = |text: &str| text.chars().collect::<Vec<_>>();
    match (pattern.split_first(), name.split_first()) {
        (None, first) => first.is_none(),
        (Some((&"**", after)), _) => (0..=name.len()).any(|taken| {
            let is_open = name[..taken].iter().all(|name| !is_hidden(name));
            let is_itself = taken == 0 && name.is_empty();
            is_open && (is_dir || !is_itself) && is_named(after, &name[taken..], is_dir)
        }),
        (Some((part, after)), Some((first, rest))) => {
            let may = !is_hidden(first) || is_hidden(part);
            may && fnmatch(&chars(part), &chars(first)) && is_named(after, rest, is_dir)
        }
        (Some(_), None) => false,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn any_pattern_matches_as_in_python(
        patterns in prop::collection::vec(
            prop::collection::vec((
                prop_oneof!["[*?\\[\\]!abstu.é1]{1,5}", "sub|deep|to|é|\\*\\*|\\.|\\*|a b|\\?\\*"],
                "/|//|/\\./",
            ), 1..4), 20),
        at_end in any::<bool>(),
    ) {
        let (dir, _) = odd();
        let root = Path::try_from(dir.path()).unwrap();
        let mut names = vec![(String::new(), true)];
        all(dir.path(), "", &mut names);
        for parts in patterns {
            let mut pattern: String = parts.iter().flat_map(|(part, end)| [&part[..], &end[..]]).collect();
            if !at_end {
                pattern.truncate(pattern.len() - parts.last().unwrap().1.len());
            }
            let components: Vec<&str> =
                pattern.split('/').filter(|part| !matches!(*part, "" | ".")).collect();
            if components.is_empty() || components.contains(&"..") {
                continue;
            }
            let only_folders = pattern.ends_with('/') || pattern.ends_with("/.");
            let kept = |(name, is_dir): &&(String, bool)| {
                (*is_dir || !only_folders) && is_named(&components, &name.split_terminator('/').collect::<Vec<_>>(), *is_dir)
            };
            let expected = sorted(names.iter().filter(kept).map(|(name, _)| root.join(name)).collect());
            prop_assert_eq!(root.glob_below(&pattern).unwrap(), expected, "{}", pattern);
        }
    }
}
