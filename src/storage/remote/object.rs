//! Buckets of any provider, accessed through `object_store`.

use std::ops::Range;
use std::sync::Arc;
use std::time::SystemTime;

use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, stream};
use object_store::path::Path as Key;
use object_store::{
    GetOptions, GetRange, GetResult, MultipartUpload, ObjectMeta, ObjectStore, ObjectStoreExt,
    PutMode, UpdateVersion,
};

use super::failure::Failure;
use super::store::{Attempt, Depth, Fetched, Found, Store, Version};
use super::sum::Crc32c;

/// A bucket or container.
pub(super) struct Bucket {
    /// Makes one attempt per call; the caller retries, because a reader knows its position.
    pub once: Arc<dyn ObjectStore>,
    /// Retries single requests: for pages of listings and parts of uploads.
    pub patient: Arc<dyn ObjectStore>,
    /// Whether there are no credentials. Nothing is written then: a request would contact a
    /// metadata server.
    pub anonymous: bool,
}

impl Store for Bucket {
    fn fetch<'a>(&'a self, key: &'a str, range: Range<u64>) -> Attempt<'a, Fetched> {
        Box::pin(async move {
            let range = Some(GetRange::Bounded(range));
            let options = GetOptions { range, ..GetOptions::default() };
            let got = self.once.get_opts(&parse(key)?, options).await?;
            Ok(Fetched {
                version: version(&got),
                start: got.range.start,
                ranged: true,
                bytes: got.into_stream().map_err(Failure::from).boxed(),
            })
        })
    }

    fn stat<'a>(&'a self, key: &'a str) -> Attempt<'a, Version> {
        Box::pin(async move {
            let options = GetOptions { head: true, ..GetOptions::default() };
            Ok(version(&self.once.get_opts(&parse(key)?, options).await?))
        })
    }

    fn list<'a>(&'a self, folder: &'a str, depth: Depth) -> Attempt<'a, Vec<Found>> {
        Box::pin(async move {
            let prefix = parse(folder)?;
            let below = |key: &Key| relative(folder, key.as_ref());
            let file = |meta: &ObjectMeta| {
                Some(Found { name: below(&meta.location)?, size: Some(meta.size) })
            };
            if depth == Depth::Tree {
                let all: Vec<ObjectMeta> =
                    self.patient.list(Some(&prefix)).try_collect().await.map_err(listed)?;
                return Ok(without_markers(all.iter().filter_map(file).collect()));
            }
            let listed = self.patient.list_with_delimiter(Some(&prefix)).await.map_err(listed)?;
            let folders = listed.common_prefixes.iter().filter_map(below);
            let folders = folders.map(|name| Found { name, size: None });
            Ok(folders.chain(listed.objects.iter().filter_map(file)).collect())
        })
    }

    fn has_below<'a>(&'a self, folder: &'a str) -> Attempt<'a, bool> {
        Box::pin(async move {
            let prefix = parse(folder)?;
            let first =
                self.patient.list(Some(&prefix)).next().await.transpose().map_err(listed)?;
            // The bucket itself exists, whatever its contents.
            Ok(first.is_some() || folder.is_empty())
        })
    }

    fn writable(&self) -> Result<(), Failure> {
        match self.anonymous {
            true => Err(Failure::Denied("writing needs credentials, and none were found".into())),
            false => Ok(()),
        }
    }

    fn put<'a>(&'a self, key: &'a str, bytes: Bytes) -> Attempt<'a, ()> {
        Box::pin(async move {
            self.writable()?;
            self.once.put(&parse(key)?, bytes.into()).await?;
            Ok(())
        })
    }

    fn put_if<'a>(
        &'a self,
        key: &'a str,
        bytes: Bytes,
        expected: Option<&'a Version>,
    ) -> Attempt<'a, Version> {
        Box::pin(async move {
            self.writable()?;
            let mode = match expected {
                None => PutMode::Create,
                Some(Version { e_tag, generation, .. }) => PutMode::Update(UpdateVersion {
                    e_tag: e_tag.clone(),
                    version: generation.clone(),
                }),
            };
            let written = self.once.put_opts(&parse(key)?, bytes.into(), mode.into()).await?;
            let (e_tag, generation) = (written.e_tag, written.version);
            Ok(Version { e_tag, generation, ..Version::default() })
        })
    }

    fn upload<'a>(&'a self, key: &'a str) -> Attempt<'a, Box<dyn MultipartUpload>> {
        Box::pin(async move {
            self.writable()?;
            Ok(self.patient.put_multipart(&parse(key)?).await?)
        })
    }

    fn remove(&self, keys: Vec<String>) -> Attempt<'_, ()> {
        Box::pin(async move {
            self.writable()?;
            let keys: Vec<_> = keys.iter().map(|key| parse(key)).collect::<Result<_, _>>()?;
            let keys = stream::iter(keys.into_iter().map(Ok)).boxed();
            let mut removed = self.once.delete_stream(keys);
            while let Some(result) = removed.next().await {
                match result {
                    Ok(_) | Err(object_store::Error::NotFound { .. }) => {}
                    Err(error) => return Err(error.into()),
                }
            }
            Ok(())
        })
    }

    fn copy<'a>(&'a self, from: &'a str, to: &'a str) -> Attempt<'a, ()> {
        Box::pin(async move {
            self.writable()?;
            Ok(self.once.copy(&parse(from)?, &parse(to)?).await?)
        })
    }
}

/// Converts the error of a listing: a missing folder gives an empty listing, so only a bucket can
/// be missing.
fn listed(error: object_store::Error) -> Failure {
    match error.into() {
        Failure::NotFound => Failure::Permanent("there is no such bucket".to_string()),
        failure => failure,
    }
}

fn parse(key: &str) -> Result<Key, Failure> {
    Key::parse(key)
        .map_err(|error| Failure::Permanent(format!("it is not a valid file name: {error}")))
}

fn version(got: &GetResult) -> Version {
    let meta = &got.meta;
    Version {
        size: Some(meta.size),
        e_tag: meta.e_tag.clone(),
        modified: Some(SystemTime::from(meta.last_modified)),
        generation: meta.version.clone(),
        // Set by the client, which sees the headers.
        crc32c: got.extensions.get::<Crc32c>().copied(),
    }
}

/// The rest of a key after the folder; `None` for the folder itself.
fn relative(folder: &str, key: &str) -> Option<String> {
    let rest = match folder {
        "" => key,
        folder => key.strip_prefix(folder)?.strip_prefix('/')?,
    };
    (!rest.is_empty()).then(|| rest.to_string())
}

/// Removes folder markers: consoles mark folders by empty objects, whose names end in a slash that
/// the key has lost.
fn without_markers(mut found: Vec<Found>) -> Vec<Found> {
    let mut folders = std::collections::HashSet::new();
    for file in &found {
        let slashes = file.name.match_indices('/');
        folders.extend(slashes.map(|(at, _)| file.name[..at].to_string()));
    }
    found.retain(|file| file.size != Some(0) || !folders.contains(&file.name));
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_objects_that_mark_folders_are_no_files() {
        let file = |name: &str, size| Found { name: name.to_string(), size: Some(size) };
        let found = vec![file("a", 0), file("a/b", 1), file("empty", 0)];
        assert_eq!(without_markers(found), [file("a/b", 1), file("empty", 0)]);
    }

    #[test]
    fn names_are_relative_to_the_folder() {
        assert_eq!(relative("a", "a/b/c").as_deref(), Some("b/c"));
        assert_eq!(relative("", "a").as_deref(), Some("a"));
        assert_eq!(relative("a", "a"), None);
        assert_eq!(relative("a", "ab"), None);
    }
}
