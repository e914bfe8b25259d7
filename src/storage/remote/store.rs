//! The interface of remote stores; a store may report an operation as unsupported.

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use std::ops::Range;
use std::time::SystemTime;

use object_store::MultipartUpload;

use super::failure::Failure;
use super::sum::Crc32c;

/// One attempt at an operation.
pub(super) type Attempt<'a, T> = BoxFuture<'a, Result<T, Failure>>;

/// The properties that distinguish one state of a file from another.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Version {
    /// Size of the whole file in bytes, if the server sends it.
    pub size: Option<u64>,
    /// The server's fingerprint.
    pub e_tag: Option<String>,
    /// Time of the last change.
    pub modified: Option<SystemTime>,
    /// The number that Google's store gives to each state; conditional writes there use this
    /// number.
    pub generation: Option<String>,
    /// The checksum of the whole file, if the store sends it.
    pub crc32c: Option<Crc32c>,
}

impl Version {
    /// Whether both may be the same state: no property known in both differs.
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
    /// State of the file that the bytes belong to.
    pub version: Version,
    /// Offset of the bytes in the file.
    pub start: u64,
    /// Whether the server supports ranges; otherwise it sent the whole file.
    pub ranged: bool,
    /// The bytes as they arrive.
    pub bytes: BoxStream<'static, Result<Bytes, Failure>>,
}

/// Depth of a listing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Depth {
    /// Direct entries of the folder.
    Children,
    /// All files below the folder.
    Tree,
}

/// An entry of a folder.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Found {
    /// Its path relative to the folder.
    pub name: String,
    /// Size of a file in bytes; `None` for a folder.
    pub size: Option<u64>,
}

/// A bucket, a hub repository or the web. A key is the rest of the path after the store, without a
/// leading slash. Each call is one attempt; the caller retries.
pub(super) trait Store: Send + Sync + 'static {
    /// Requests a range of a file, which may extend beyond the end of the file.
    fn fetch<'a>(&'a self, key: &'a str, range: Range<u64>) -> Attempt<'a, Fetched>;

    /// Reads the state of a file without reading its bytes.
    fn stat<'a>(&'a self, key: &'a str) -> Attempt<'a, Version>;

    /// Lists a folder, unsorted; empty if the folder does not exist.
    fn list<'a>(&'a self, folder: &'a str, depth: Depth) -> Attempt<'a, Vec<Found>>;

    /// Whether any file lies below a folder; a folder exists only through its files.
    fn has_below<'a>(&'a self, folder: &'a str) -> Attempt<'a, bool> {
        Box::pin(async move { Ok(!self.list(folder, Depth::Children).await?.is_empty()) })
    }

    /// Whether the operations below are supported here and may be tried.
    fn writable(&self) -> Result<(), Failure> {
        Err(only_read())
    }

    /// Replaces a file as a whole.
    fn put<'a>(&'a self, _key: &'a str, _bytes: Bytes) -> Attempt<'a, ()> {
        Box::pin(async { Err(only_read()) })
    }

    /// Replaces a file that is in the state `_expected`, or creates one if none exists; otherwise a
    /// conflict.
    fn put_if<'a>(
        &'a self,
        _key: &'a str,
        _bytes: Bytes,
        _expected: Option<&'a Version>,
    ) -> Attempt<'a, Version> {
        Box::pin(async { Err(only_read()) })
    }

    /// Starts writing a large file, which becomes visible when it is complete.
    fn upload<'a>(&'a self, _key: &'a str) -> Attempt<'a, Box<dyn MultipartUpload>> {
        Box::pin(async { Err(only_read()) })
    }

    /// Removes files; missing files are not an error.
    fn remove(&self, _keys: Vec<String>) -> Attempt<'_, ()> {
        Box::pin(async { Err(only_read()) })
    }

    /// Copies a file within the store.
    fn copy<'a>(&'a self, _from: &'a str, _to: &'a str) -> Attempt<'a, ()> {
        Box::pin(async { Err(only_read()) })
    }
}

/// The failure of every writing operation on a read-only store.
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
