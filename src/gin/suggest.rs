//! "Did you mean": the known name nearest to what was written.

/// Returns `did you mean `x`?`, or a list of the known names if none is near.
pub fn did_you_mean<'a>(written: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    let mut known: Vec<&str> = known.into_iter().collect();
    known.sort_unstable();
    known.dedup();
    if let Some(name) = nearest(written, &known) {
        return format!("did you mean `{name}`?");
    }
    match known.len() {
        0 => "nothing of that kind is defined".to_string(),
        1..=12 => format!("known are {}", quoted(&known)),
        more => format!("known are {} and {} more", quoted(&known[..12]), more - 12),
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

fn quoted(names: &[&str]) -> String {
    let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    names.join(", ")
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
