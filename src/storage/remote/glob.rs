//! Patterns over places that only list folders: a folder is listed where a part of the pattern needs
//! it, and all below it only for `**`.

use futures::{StreamExt, TryStreamExt, stream};
use glob::{MatchOptions, Pattern};

use super::failure::Failure;
use super::limits::limits;
use super::retry::retry;
use super::store::{Depth, Found};
use super::{Remote, join};

/// Folders that are listed at once.
const AT_ONCE: usize = 8;

const OPTIONS: MatchOptions = MatchOptions {
    case_sensitive: true,
    require_literal_separator: true,
    require_literal_leading_dot: false,
};

/// Whether it is a pattern; else why not.
pub(super) fn check(pattern: &str) -> Result<(), String> {
    Pattern::new(pattern)
        .map(|_| ())
        .map_err(|error| format!("{} at byte {} of the pattern", error.msg, error.pos))
}

/// The names below the folder that match a checked pattern, relative to it.
pub(super) async fn expand(folder: &Remote, pattern: &str) -> Result<Vec<String>, Failure> {
    let mut found = vec![String::new()];
    let mut rest = pattern;
    while !rest.is_empty() && !found.is_empty() {
        let (part, after) = rest.split_once('/').unwrap_or((rest, ""));
        if part.contains("**") {
            return each(folder, found, rest, Step::Tree).await;
        }
        let last = after.is_empty();
        let step = match (part.contains(['*', '?', '[']), last) {
            (true, true) => Step::Any,
            (true, false) => Step::Folders,
            (false, true) => Step::Named,
            (false, false) => {
                found.iter_mut().for_each(|base| *base = join(base, part));
                rest = after;
                continue;
            }
        };
        found = each(folder, found, part, step).await?;
        rest = after;
    }
    Ok(found)
}

/// What a part of a pattern stands for.
#[derive(Clone, Copy)]
enum Step {
    /// Folders that match.
    Folders,
    /// Files and folders that match.
    Any,
    /// The one of that name, if it is there.
    Named,
    /// Files anywhere below that match.
    Tree,
}

async fn each(
    folder: &Remote,
    bases: Vec<String>,
    part: &str,
    step: Step,
) -> Result<Vec<String>, Failure> {
    let below = stream::iter(bases)
        .map(|base| async move { one(folder, &base, part, step).await })
        .buffered(AT_ONCE);
    let lists: Vec<Vec<String>> = below.try_collect().await?;
    Ok(lists.into_iter().flatten().collect())
}

async fn one(folder: &Remote, base: &str, part: &str, step: Step) -> Result<Vec<String>, Failure> {
    let key = join(&folder.key, base);
    let store = &folder.store;
    if let Step::Named = step {
        let named = Remote { key: join(&key, part), ..folder.clone() };
        let there = match named.stat().await {
            Ok(_) => true,
            Err(Failure::NotFound) => {
                retry(limits(), &folder.path, || store.has_below(&named.key)).await?
            }
            Err(failure) => return Err(failure),
        };
        return Ok(if there { vec![join(base, part)] } else { Vec::new() });
    }
    let depth = if let Step::Tree = step { Depth::Tree } else { Depth::Children };
    let listed = retry(limits(), &folder.path, || store.list(&key, depth)).await?;
    let pattern = Pattern::new(part).map_err(|error| Failure::Permanent(error.to_string()))?;
    let kept = |found: &Found| {
        let kind = !matches!(step, Step::Folders) || found.size.is_none();
        kind && pattern.matches_with(&found.name, OPTIONS)
    };
    Ok(listed.iter().filter(|found| kept(found)).map(|found| join(base, &found.name)).collect())
}
