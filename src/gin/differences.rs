//! The differences in meaning between configurations, of the values that their roots get.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// A path with different values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference<'a> {
    /// The path from the root.
    pub path: &'a str,
    /// For each configuration, the value, if it has the path.
    pub values: Vec<Option<&'a str>>,
}

/// Prints `path: first -> second`.
impl fmt::Display for Difference<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let values = self.values.iter().map(|value| value.unwrap_or("(nothing)"));
        write!(f, "{}: {}", self.path, values.collect::<Vec<_>>().join(" -> "))
    }
}

/// Returns the paths at which configurations differ, of their [`tree`](crate::tree)s; for a part of some of them only,
/// the path of its head.
pub fn differences<'a>(trees: &[&'a BTreeMap<String, String>]) -> Vec<Difference<'a>> {
    let paths: BTreeSet<&str> =
        trees.iter().flat_map(|tree| tree.keys()).map(String::as_str).collect();
    let mut out = Vec::new();
    let mut replaced: Option<&str> = None;
    for path in paths {
        if replaced.is_some_and(|head| path != head && is_within(path, head)) {
            continue;
        }
        let values: Vec<Option<&str>> =
            trees.iter().map(|tree| tree.get(path).map(String::as_str)).collect();
        if values.windows(2).all(|pair| pair[0] == pair[1]) {
            continue;
        }
        // Values below a replaced configurable differ because of it.
        let is_replaced = values.iter().flatten().any(|value| value.starts_with('@'));
        replaced = is_replaced.then_some(path);
        out.push(Difference { path, values });
    }
    out
}

/// Whether a path is that of a value or of a part of it.
pub fn is_within(path: &str, value: &str) -> bool {
    let rest = path.strip_prefix(value);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
}
