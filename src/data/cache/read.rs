//! A split of a cache as files to be read.

use std::collections::BTreeSet;

use super::folder::CacheFolder;
use super::info::Info;
use super::stats::Stats;
use crate::error::DataError;
use crate::source::{Format, RecordParser, SourceFile, SplitFiles, unknown_split};

/// The files of a split of a task's cache.
pub(crate) fn cached_split(
    cache: &CacheFolder,
    task: &str,
    split: &str,
) -> Result<SplitFiles, DataError> {
    if !has_cached_split(cache, split)? {
        return Err(unknown_split(task, split, cache.splits()?.into_iter()));
    }
    let unfit = |reason| DataError::UnfitCache { folder: cache.path().to_string(), reason };
    let described = cache.info(split);
    let info: Info = serde_json::from_slice(&described.read()?)
        .map_err(|error| unfit(format!("{}: {error}", described.file_name())))?;
    let features = info.tf_features().map_err(unfit)?;
    let present: BTreeSet<_> = cache.path().list()?.into_iter().collect();
    let shards = (0..info.num_shards).map(|index| cache.shard(split, index, info.num_shards));
    let files = shards.map(|path| match present.contains(&path) {
        true => Ok(SourceFile::new(path, Format::TfRecord)),
        false => Err(unfit(format!("{} is missing", path.file_name()))),
    });
    // SeqIO reads every cache in the same way, independent of its task's source.
    let parser = RecordParser::of_tf_examples(features);
    Ok(SplitFiles::new(files.collect::<Result<_, _>>()?, parser))
}

/// A count of the split's `stats.json`, such as `examples`; `None` if it is missing.
pub(crate) fn cached_count(
    cache: &CacheFolder,
    split: &str,
    name: &str,
) -> Result<Option<u64>, DataError> {
    let unfit = |reason| DataError::UnfitCache { folder: cache.path().to_string(), reason };
    let counts = cache.stats(split);
    if !counts.exists()? {
        return Ok(None);
    }
    let stats: Stats = serde_json::from_slice(&counts.read()?)
        .map_err(|error| unfit(format!("{}: {error}", counts.file_name())))?;
    Ok(stats.get(name))
}

/// Whether the cache has the split.
pub(crate) fn has_cached_split(cache: &CacheFolder, split: &str) -> Result<bool, DataError> {
    Ok(cache.info(split).exists()?)
}
