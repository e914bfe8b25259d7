//! Caches in stores, whose files do not grow: each is made on disk and then sent, so a run that is killed
//! goes on there with what it has. What makes it complete is sent last.

use std::hash::{DefaultHasher, Hash, Hasher};

use super::folder::CacheFolder;
use crate::data::error::DataError;
use crate::storage::{Path, StorageError};

/// Where the cache is made: a folder below that for temporary files, the same each time for the same
/// recipe.
pub(super) fn staging(cache: &CacheFolder, recipe: &str) -> Result<CacheFolder, DataError> {
    let mut hasher = DefaultHasher::new();
    (cache.path(), recipe).hash(&mut hasher);
    let name = format!("gimlet-cache-{:016x}", hasher.finish());
    Ok(CacheFolder::of(&Path::try_from(&*std::env::temp_dir())?, &name))
}

/// Sends a complete cache to its store, and removes it here.
pub(super) fn publish(staged: &CacheFolder, cache: &CacheFolder) -> Result<(), DataError> {
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

fn send(from: &Path, to: &Path) -> Result<(), StorageError> {
    let mut out = to.create()?;
    let sent = std::io::copy(&mut from.open()?, &mut out);
    sent.map_err(|error| StorageError::new("write", to, error))?;
    out.finish()
}
