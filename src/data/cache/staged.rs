//! Caches in stores, whose files cannot grow: each cache is made on disk and then sent, so a run
//! continues there after a killed one. The file that marks completion is sent last.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};

use super::folder::CacheFolder;
use super::plan::SplitPlan;
use crate::error::DataError;
use gimlet_storage::{Path, StorageError};

/// Returns the folder in which the cache is made: a folder below the one for temporary files, the
/// same for the same recipe. Its name is predictable, so the folder is private to the user.
pub(super) fn staging(cache: &CacheFolder, recipe: &str) -> Result<CacheFolder, DataError> {
    let mut hasher = DefaultHasher::new();
    (cache.path(), recipe).hash(&mut hasher);
    let name = format!("gimlet-cache-{:016x}", hasher.finish());
    let staged = CacheFolder::of(&Path::try_from(&*std::env::temp_dir())?, &name);
    staged.path().create_private_dir()?;
    Ok(staged)
}

/// Sends a complete cache to its store, and removes the local copy.
pub(super) fn publish(
    staged: &CacheFolder,
    cache: &CacheFolder,
    plans: &[SplitPlan],
) -> Result<(), DataError> {
    check(staged, plans)?;
    if cache.path().is_dir()? {
        cache.clear()?;
    }
    let (last, files): (Vec<Path>, Vec<Path>) =
        staged.path().list()?.into_iter().partition(|file| *file == staged.completed());
    for file in files.iter().chain(&last) {
        send(file, &cache.path().join(file.file_name()))?;
    }
    Ok(staged.path().remove_dir_all()?)
}

/// Checks that no file is missing: cleanup of temporary folders removes the oldest files first.
fn check(staged: &CacheFolder, plans: &[SplitPlan]) -> Result<(), DataError> {
    let found: BTreeSet<Path> = staged.path().list()?.into_iter().collect();
    let of_split = |plan: &SplitPlan| staged.files_of(plan);
    match plans.iter().flat_map(of_split).find(|file| !found.contains(file)) {
        None => Ok(()),
        Some(lacking) => Err(DataError::UnfitCache {
            folder: staged.path().to_string(),
            reason: format!("`{}` is not there", lacking.file_name()),
        }),
    }
}

fn send(from: &Path, to: &Path) -> Result<(), StorageError> {
    let mut out = to.create()?;
    let sent = std::io::copy(&mut from.open()?, &mut out);
    sent.map_err(|error| StorageError::new("write", to, error))?;
    out.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cache_that_lacks_a_file_is_not_sent() {
        let dir = tempfile::tempdir().unwrap();
        let [staged, cache] = ["staged", "cache"]
            .map(|name| CacheFolder::of(&Path::try_from(dir.path()).unwrap(), name));
        let plan = SplitPlan { split: "train".to_string(), files: Vec::new(), num_shards: 2 };
        staged.path().create_dir_all().unwrap();
        cache.path().create_dir_all().unwrap();
        let shard = staged.shard("train", 1, 2);
        for file in [staged.shard("train", 0, 2), staged.info("train"), staged.stats("train")] {
            file.write_atomic(b"").unwrap();
        }
        staged.complete().unwrap();
        let error = publish(&staged, &cache, std::slice::from_ref(&plan)).unwrap_err();
        assert!(error.to_string().contains(&format!("`{}` is not there", shard.file_name())));
        assert!(!cache.is_complete().unwrap());
        shard.write_atomic(b"").unwrap();
        publish(&staged, &cache, &[plan]).unwrap();
        assert!(cache.is_complete().unwrap());
    }
}
