//! "Did you mean": the known name nearest to what was written.

use std::cmp::Reverse;
use std::collections::BTreeSet;

/// The greatest number of known names that are all listed.
const ALL: usize = 12;

/// The names that are listed of more.
const SOME: usize = 6;

/// Returns `did you mean `x`?`, or a list of the known names if none is near: of many, those most like the written one.
pub fn did_you_mean<'a>(written: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    let mut known: Vec<&str> = known.into_iter().collect();
    known.sort_unstable();
    known.dedup();
    if let Some(name) = nearest(written, &known) {
        return format!("did you mean `{name}`?");
    }
    match known.len() {
        0 => "nothing of that kind is defined".to_string(),
        1..=ALL => format!("known are {}", quoted(&known)),
        more => {
            known.sort_by_cached_key(|name| Reverse(likeness(written, name)));
            format!("known are {} and {} more", quoted(&known[..SOME]), more - SOME)
        }
    }
}

/// Returns the nearest known name within a third of the written one's length in edits, if any.
pub fn nearest<'a>(written: &str, known: &[&'a str]) -> Option<&'a str> {
    let budget = (written.chars().count() / 3).max(1);
    known
        .iter()
        .map(|name| (distance(&written.to_lowercase(), &name.to_lowercase()), *name))
        .filter(|(distance, _)| *distance <= budget)
        .min()
        .map(|(_, name)| name)
}

/// Returns the share of pairs of neighbouring letters that two names have in common, in thousandths.
fn likeness(a: &str, b: &str) -> usize {
    let pairs = |name: &str| {
        let letters: Vec<char> = name.to_lowercase().chars().collect();
        letters.windows(2).map(|pair| (pair[0], pair[1])).collect::<BTreeSet<_>>()
    };
    let (a, b) = (pairs(a), pairs(b));
    2000 * a.intersection(&b).count() / (a.len() + b.len()).max(1)
}

fn quoted(names: &[&str]) -> String {
    let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    names.join(", ")
}

/// Returns the known names by their distance in edits from the written one, the nearest first.
pub fn nearest_first<'a>(written: &str, known: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let mut known: Vec<(usize, &str)> =
        known.into_iter().map(|name| (distance(written, name), name)).collect();
    known.sort_unstable();
    known.dedup();
    known.into_iter().map(|(_, name)| name).collect()
}

/// Levenshtein distance, with a swap of neighbours counted once.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut rows = vec![(0..=b.len()).collect::<Vec<usize>>()];
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let substitution = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut cost = substitution.min(rows[i - 1][j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                cost = cost.min(rows[i - 2][j - 2] + 1);
            }
            row.push(cost);
        }
        rows.push(row);
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_many_known_names_those_most_like_the_written_one_are_listed() {
        let known: Vec<String> = (0..20).map(|i| format!("aaa_{i}")).collect();
        let known = known.iter().map(String::as_str).chain(["glue_sst2", "xsum_and_glue"]);
        let text = did_you_mean("glue_of_my_own", known);
        assert!(text.starts_with("known are `glue_sst2`, `xsum_and_glue`, "), "{text}");
        assert!(text.ends_with(" and 16 more"), "{text}");
    }
}
