//! Matches patterns in stores that can only list folders: a folder is listed when a component of
//! the pattern needs it, and everything below only for `**`.

use std::collections::BTreeMap;

use futures::{StreamExt, TryStreamExt, stream};

use super::failure::Failure;
use super::limits::limits;
use super::retry::retry;
use super::store::{Depth, Found};
use super::{Remote, join};
use crate::pattern::{Below, Component, Pattern};

/// Number of folders that are listed at once.
const AT_ONCE: usize = 8;

/// Returns the names below the folder that match a pattern without `..`, relative to the folder;
/// the folder itself is the empty name.
pub(super) async fn expand(folder: &Remote, pattern: &Pattern) -> Result<Vec<String>, Failure> {
    let mut found = vec![String::new()];
    for (index, part) in pattern.parts.iter().enumerate() {
        let rest = &pattern.parts[index..];
        let (last, only_folders) = (rest.len() == 1, pattern.only_folders || rest.len() > 1);
        let step = match part {
            Component::Below => {
                Step { parts: rest, depth: Depth::Tree, only_folders: pattern.only_folders }
            }
            Component::Like(_) => Step { parts: &rest[..1], depth: Depth::Children, only_folders },
            Component::Named(name) => {
                found.iter_mut().for_each(|base| *base = join(base, name));
                if last {
                    return kept(folder, found, only_folders).await;
                }
                continue;
            }
        };
        found = each(folder, found, &step).await?;
        if step.depth == Depth::Tree || found.is_empty() {
            break;
        }
    }
    Ok(found)
}

/// The listing of a folder, and the part of the pattern that selects names from it.
struct Step<'a> {
    parts: &'a [Component],
    depth: Depth,
    only_folders: bool,
}

async fn each(
    folder: &Remote,
    bases: Vec<String>,
    step: &Step<'_>,
) -> Result<Vec<String>, Failure> {
    let below = stream::iter(bases)
        .map(|base| async move { one(folder, &base, step).await })
        .buffered(AT_ONCE);
    let lists: Vec<Vec<String>> = below.try_collect().await?;
    Ok(lists.into_iter().flatten().collect())
}

async fn one(folder: &Remote, base: &str, step: &Step<'_>) -> Result<Vec<String>, Failure> {
    let key = join(&folder.key, base);
    let listed = retry(limits(), &folder.path, || folder.store.list(&key, step.depth)).await?;
    let is_kept = |name: &str, is_folder: bool| {
        let names: Vec<&str> = name.split('/').filter(|name| !name.is_empty()).collect();
        (is_folder || !step.only_folders) && Below { names: &names, is_folder }.matches(step.parts)
    };
    let named = with_folders(&listed);
    let kept = named.into_iter().filter(|(name, is_folder)| is_kept(name, *is_folder));
    Ok(kept.map(|(name, _)| join(base, name)).collect())
}

/// Returns the listed names and the folders that contain them, including the listed folder if it is not empty.
fn with_folders(listed: &[Found]) -> BTreeMap<&str, bool> {
    let mut named = BTreeMap::new();
    for found in listed {
        let folders = found.name.match_indices('/').map(|(at, _)| &found.name[..at]);
        named.extend(folders.chain([""]).map(|folder| (folder, true)));
        named.insert(&found.name, found.size.is_none());
    }
    named
}

/// Returns the names that exist.
async fn kept(
    folder: &Remote,
    names: Vec<String>,
    only_folders: bool,
) -> Result<Vec<String>, Failure> {
    let looked = stream::iter(names)
        .map(|name| async move {
            let there = is_there(folder, &name, only_folders).await?;
            Ok::<_, Failure>(there.then_some(name))
        })
        .buffered(AT_ONCE);
    let there: Vec<Option<String>> = looked.try_collect().await?;
    Ok(there.into_iter().flatten().collect())
}

async fn is_there(folder: &Remote, name: &str, only_folders: bool) -> Result<bool, Failure> {
    let named = Remote { key: join(&folder.key, name), ..folder.clone() };
    if !only_folders {
        match named.stat().await {
            Err(Failure::NotFound) => {}
            looked => return looked.map(|_| true),
        }
    }
    retry(limits(), &folder.path, || folder.store.has_below(&named.key)).await
}
