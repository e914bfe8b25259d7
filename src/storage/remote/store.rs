//! What every place elsewhere can do, or says that it cannot.

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use std::ops::Range;
use std::time::SystemTime;

use object_store::MultipartUpload;

use super::failure::Failure;
use super::sum::Crc32c;

/// One attempt at something.
pub(super) type Attempt<'a, T> = BoxFuture<'a, Result<T, Failure>>;

/// What tells one state of a file from another.
#[derive(Clone, Debug, Default, PartialEq)]
pub(in crate::storage) struct Version {
    /// Bytes in the whole file, where the server says so.
    pub size: Option<u64>,
    /// The server's fingerprint.
    pub e_tag: Option<String>,
    /// When it was last changed.
    pub modified: Option<SystemTime>,
    /// The number that Google's store gives to each state; conditional writes there go by it.
    pub generation: Option<String>,
    /// The checksum of the whole file, where the store sends it.
    pub crc32c: Option<Crc32c>,
}

impl Version {
    /// Whether both may be the same state: nothing that both know differs.
    pub(super) fn agrees(&self, other: &Self) -> bool {
        fn same<T: PartialEq>(one: &Option<T>, other: &Option<T>) -> bool {
            one.is_none() || other.is_none() || one == other
        }
        same(&self.size, &other.size)
            && same(&self.e_tag, &other.e_tag)
            && same(&self.modified, &other.modified)
    }
}

/// An answer to a request for bytes.
pub(super) struct Fetched {
    /// Which state of the file they are of.
    pub version: Version,
    /// Where in the file they start.
    pub start: u64,
    /// Whether the server gives parts of files; else it sent the whole.
    pub ranged: bool,
    /// The bytes as they arrive.
    pub bytes: BoxStream<'static, Result<Bytes, Failure>>,
}

/// How far below a folder to look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Depth {
    /// What lies directly in it.
    Children,
    /// All files below it.
    Tree,
}

/// Something in a folder.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::storage) struct Found {
    /// Its path relative to the folder.
    pub name: String,
    /// The bytes of a file; none for a folder.
    pub size: Option<u64>,
}

/// A bucket, a hub repository or the web. Keys are what follows it in a path, without a first
/// slash. Each call is one attempt; the caller retries.
pub(super) trait Store: Send + Sync + 'static {
    /// Asks for a range of a file, which may reach behind its end.
    fn fetch<'a>(&'a self, key: &'a str, range: Range<u64>) -> Attempt<'a, Fetched>;

    /// Looks at a file without reading it.
    fn stat<'a>(&'a self, key: &'a str) -> Attempt<'a, Version>;

    /// What a folder holds, unsorted; nothing where there is none.
    fn list<'a>(&'a self, folder: &'a str, depth: Depth) -> Attempt<'a, Vec<Found>>;

    /// Whether anything lies below a folder, which is all there is to a folder.
    fn has_below<'a>(&'a self, folder: &'a str) -> Attempt<'a, bool> {
        Box::pin(async move { Ok(!self.list(folder, Depth::Children).await?.is_empty()) })
    }

    /// Whether the operations below exist here and may be tried.
    fn writable(&self) -> Result<(), Failure> {
        Err(only_read())
    }

    /// Replaces a file as a whole.
    fn put<'a>(&'a self, _key: &'a str, _bytes: Bytes) -> Attempt<'a, ()> {
        Box::pin(async { Err(only_read()) })
    }

    /// Replaces a file that is in a state, or makes one where there is none; else a conflict.
    fn put_if<'a>(
        &'a self,
        _key: &'a str,
        _bytes: Bytes,
        _expected: Option<&'a Version>,
    ) -> Attempt<'a, Version> {
        Box::pin(async { Err(only_read()) })
    }

    /// Starts to write a large file, which appears once it is complete.
    fn upload<'a>(&'a self, _key: &'a str) -> Attempt<'a, Box<dyn MultipartUpload>> {
        Box::pin(async { Err(only_read()) })
    }

    /// Removes files; those that are not there are no error.
    fn remove(&self, _keys: Vec<String>) -> Attempt<'_, ()> {
        Box::pin(async { Err(only_read()) })
    }

    /// Copies a file within the store.
    fn copy<'a>(&'a self, _from: &'a str, _to: &'a str) -> Attempt<'a, ()> {
        Box::pin(async { Err(only_read()) })
    }
}

/// What every operation that writes fails with, where none can.
fn only_read() -> Failure {
    let remedy = "it can only be read; write to a folder or a bucket (gs://, s3://, az://)";
    Failure::Unsupported(remedy.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_differ_only_in_what_both_know() {
        let tagged = |tag: &str| Version { e_tag: Some(tag.to_string()), ..Version::default() };
        let sized = Version { size: Some(3), ..Version::default() };
        assert!(tagged("a").agrees(&tagged("a")) && tagged("a").agrees(&sized));
        assert!(!tagged("a").agrees(&tagged("b")));
    }
}
