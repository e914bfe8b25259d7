//! Remote files: buckets, the hub, the web. Only this module uses `object_store` and tokio; its
//! interface is synchronous. Reading retries and continues an interrupted transfer ([`stream`]); a
//! store is contacted on first use, never by parsing.

mod answer;
mod buckets;
mod client;
mod failure;
mod glob;
mod hub;
mod limits;
mod object;
mod ranges;
mod retry;
mod sending;
mod service;
mod store;
mod stream;
mod sum;
mod upload;
mod watched;
mod web;

use std::collections::HashMap;
use std::future::Future;
use std::ops::Range;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::time::{Instant, SystemTime};

pub(super) use failure::{Contact, Failure, GivenUp};
pub(super) use limits::limits;
pub use limits::{Limits, OUTAGE_VARIABLE, set_limits};
pub(super) use ranges::RemoteRanges;
pub use service::{JsonRequest, Unanswered};
pub(super) use stream::Stream;
pub(super) use upload::Upload;

use super::credentials::variable;
use super::error::StorageError;
use super::path::{Path, split_scheme};
use super::pattern::Pattern;
use super::slow;
use futures::TryStreamExt;
use store::{Depth, Store};
pub(super) use store::{Found, Version};

/// The environment variable that disables the network for the process.
pub const OFFLINE_VARIABLE: &str = "GIMLET_OFFLINE";

/// Whether the user forbids access to the network.
fn is_offline() -> bool {
    is_on(OFFLINE_VARIABLE)
}

fn is_on(name: &str) -> bool {
    variable(name).is_some_and(|value| value != "0")
}

/// Maximum size of a small file, in bytes.
const SMALL: u64 = 1 << 16;

/// A remote file or folder.
#[derive(Clone)]
pub(super) struct Remote {
    path: Path,
    store: Arc<dyn Store>,
    key: String,
    deadline: Option<Instant>,
}

impl Remote {
    /// Finds the store of a remote path, without contacting the store.
    pub(super) fn connect(path: &Path) -> Result<Self, StorageError> {
        static STORES: Mutex<Option<HashMap<String, Arc<dyn Store>>>> = Mutex::new(None);
        if is_offline() {
            return Err(path.unmapped("$GIMLET_OFFLINE forbids access to the network"));
        }
        let invalid = |reason: &str| StorageError::Invalid {
            path: path.to_string(),
            reason: reason.to_string(),
        };
        limits::outage().map_err(|text| StorageError::Invalid {
            path: format!("${OUTAGE_VARIABLE}"),
            reason: format!("`{text}` is not a whole number of seconds, such as 300"),
        })?;
        let (scheme, rest) = split_scheme(path.as_str()).expect("a remote path has a scheme");
        let (name, key, place) = match scheme {
            "hf" if is_on("HF_HUB_OFFLINE") => {
                return Err(path.unmapped("$HF_HUB_OFFLINE forbids access to the hub"));
            }
            "tfds" => return Err(path.unmapped("TFDS has no server that could be asked")),
            "hf" => {
                let parsed = hub::RepositoryPath::parse(rest);
                let (place, key) =
                    parsed.ok_or_else(|| invalid("expected hf://datasets/OWNER/NAME/..."))?;
                (format!("hf {place:?}"), key, Some(place))
            }
            "http" | "https" => (scheme.to_string(), rest.to_string(), None),
            _ => {
                let (bucket, key) = rest.split_once('/').unwrap_or((rest, ""));
                (format!("{scheme}://{bucket}"), key.to_string(), None)
            }
        };
        if rest.is_empty() || name.ends_with("://") {
            return Err(invalid("it names no bucket or server"));
        }
        let mut stores = STORES.lock().expect("no holder of the stores panics");
        let stores = stores.get_or_insert_default();
        let store = match stores.get(&name) {
            Some(store) => store.clone(),
            None => {
                let made = make(scheme, rest, place);
                let made = made.map_err(|error| StorageError::of_failure("reach", path, error))?;
                stores.insert(name, made.clone());
                made
            }
        };
        Ok(Self { path: path.clone(), store, key, deadline: None })
    }

    /// The same file, but small requests fail if they have no answer before `deadline`.
    pub(super) fn until(&self, deadline: Instant) -> Self {
        Self { deadline: Some(deadline), ..self.clone() }
    }

    /// Opens the file at an offset.
    pub(super) fn open(self, offset: u64) -> Result<Stream, StorageError> {
        let path = self.path.clone();
        Stream::open(self, offset..u64::MAX).map_err(|e| StorageError::of_failure("open", &path, e))
    }

    /// Reads the existing bytes of a range of the file.
    pub(super) fn read(self, range: Range<u64>) -> Result<Vec<u8>, StorageError> {
        let path = self.path.clone();
        let failed = |failure| StorageError::of_failure("read", &path, failure);
        let mut bytes = Vec::new();
        if range.is_empty() {
            return Ok(bytes);
        }
        let mut stream = Stream::open(self, range).map_err(failed)?;
        let read = std::io::Read::read_to_end(&mut stream, &mut bytes);
        read.map_err(|error| StorageError::new("read", &path, error))?;
        Ok(bytes)
    }

    /// Lists the entries of the folder, or all files below the folder, sorted by name.
    pub(super) fn list(&self, tree: bool) -> Result<Vec<Found>, StorageError> {
        let depth = if tree { Depth::Tree } else { Depth::Children };
        let mut found = self.asked("list", || self.store.list(&self.key, depth))?;
        if found.is_empty() && !self.key.is_empty() {
            // Stores have no empty folders.
            return Err(StorageError::of_failure("list", &self.path, Failure::NotFound));
        }
        found.sort();
        Ok(found)
    }

    /// Returns the matching names below this folder, relative to the folder.
    pub(super) fn glob(&self, pattern: &Pattern) -> Result<Vec<String>, StorageError> {
        if pattern.climbs() {
            let reason = "a pattern below a remote folder has no `..`".to_string();
            return Err(StorageError::Invalid { path: self.path.to_string(), reason });
        }
        let found = client::wait(glob::expand(self, pattern));
        found.map_err(|failure| StorageError::of_failure("list", &self.path, failure))
    }

    pub(super) fn exists(&self) -> Result<bool, StorageError> {
        if !self.key.is_empty() {
            match client::wait(self.stat()) {
                Ok(_) => return Ok(true),
                Err(Failure::NotFound) => {}
                Err(failure) => {
                    return Err(StorageError::of_failure("look for", &self.path, failure));
                }
            }
        }
        self.is_dir()
    }

    pub(super) fn is_dir(&self) -> Result<bool, StorageError> {
        self.asked("look for", || self.store.has_below(&self.key))
    }

    pub(super) fn size(&self) -> Result<u64, StorageError> {
        let unknown = || Failure::Permanent("the server does not tell its size".to_string());
        let size = self.version()?.size.ok_or_else(unknown);
        size.map_err(|failure| StorageError::of_failure("look at", &self.path, failure))
    }

    pub(super) fn modified(&self) -> Result<SystemTime, StorageError> {
        let unknown = || Failure::Permanent("the server does not tell its age".to_string());
        let modified = self.version()?.modified.ok_or_else(unknown);
        modified.map_err(|failure| StorageError::of_failure("look at", &self.path, failure))
    }

    pub(super) fn put(&self, bytes: &[u8]) -> Result<(), StorageError> {
        self.put_bytes(bytes::Bytes::copy_from_slice(bytes))
    }

    fn put_bytes(&self, bytes: bytes::Bytes) -> Result<(), StorageError> {
        self.asked("write", || self.store.put(&self.key, bytes.clone()))
    }

    /// Reads a small file and its state; `None` if the file does not exist.
    pub(super) fn read_state(&self) -> Result<Option<(Vec<u8>, Version)>, StorageError> {
        let read = || async {
            let fetched = self.store.fetch(&self.key, 0..SMALL).await?;
            let bytes: Vec<bytes::Bytes> = fetched.bytes.try_collect().await?;
            Ok((bytes.concat(), fetched.version))
        };
        match self.wait(retry::retry(limits::limits(), &self.path, read)) {
            Ok(found) => Ok(Some(found)),
            Err(Failure::NotFound) => Ok(None),
            Err(failure) => Err(StorageError::of_failure("read", &self.path, failure)),
        }
    }

    /// Replaces the file if it is in the state `expected`, or creates it if it does not exist.
    /// Returns the new state; `None` if the file is in another state.
    pub(super) fn put_if(
        &self,
        bytes: impl Into<bytes::Bytes>,
        expected: Option<&Version>,
    ) -> Result<Option<Version>, StorageError> {
        let bytes = bytes.into();
        let put = || self.store.put_if(&self.key, bytes.clone(), expected);
        match self.wait(retry::retry(limits::limits(), &self.path, put)) {
            Ok(version) => Ok(Some(version)),
            Err(Failure::Conflict | Failure::NotFound) => Ok(None),
            Err(failure) => Err(StorageError::of_failure("write", &self.path, failure)),
        }
    }

    /// Checks whether files can be written here, before the caller computes their contents.
    pub(super) fn writable(&self, operation: &'static str) -> Result<(), StorageError> {
        match self.store.writable() {
            Ok(()) => Ok(()),
            Err(failure) => Err(StorageError::of_failure(operation, &self.path, failure)),
        }
    }

    pub(super) fn remove_file(&self) -> Result<(), StorageError> {
        self.asked("remove", || self.store.remove(vec![self.key.clone()]))
    }

    pub(super) fn remove_tree(&self) -> Result<(), StorageError> {
        let key = |found: Found| join(&self.key, &found.name);
        let keys: Vec<String> = self.list(true)?.into_iter().map(key).collect();
        self.asked("remove", || self.store.remove(keys.clone()))
    }

    /// Copies a file within its bucket.
    pub(super) fn copy(&self, to: &Self) -> Result<(), StorageError> {
        self.asked("copy", || self.store.copy(&self.key, &to.key))
    }

    /// Copies a file and removes the original: stores have no other way to move files.
    pub(super) fn rename(&self, to: &Self) -> Result<(), StorageError> {
        if !Arc::ptr_eq(&self.store, &to.store) {
            return Err(self.unsupported("rename", "both names must be in one bucket"));
        }
        match self.asked("rename", || self.store.copy(&self.key, &to.key)) {
            Ok(()) => self.remove_file(),
            Err(error) if error.is_not_found() && self.is_dir()? => {
                Err(self.unsupported("rename", "buckets rename files, not folders"))
            }
            Err(error) => Err(error),
        }
    }

    pub(super) fn unsupported(&self, operation: &'static str, remedy: &str) -> StorageError {
        StorageError::of_failure(operation, &self.path, Failure::Unsupported(remedy.to_string()))
    }

    /// The error of a file whose contents are not valid.
    pub(super) fn unfit(&self, reason: &str) -> StorageError {
        StorageError::of_failure("read", &self.path, Failure::Permanent(reason.to_string()))
    }

    /// The path that the user gave.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    fn version(&self) -> Result<Version, StorageError> {
        let version = client::wait(self.stat());
        version.map_err(|failure| StorageError::of_failure("look at", &self.path, failure))
    }

    /// Reads the file's state, with retries.
    async fn stat(&self) -> Result<Version, Failure> {
        retry::retry(limits::limits(), &self.path, || self.store.stat(&self.key)).await
    }

    /// Performs an operation with retries.
    fn asked<T, F>(
        &self,
        operation: &'static str,
        attempt: impl FnMut() -> F,
    ) -> Result<T, StorageError>
    where
        F: Future<Output = Result<T, Failure>>,
    {
        let work = retry::retry(limits::limits(), &self.path, attempt);
        let result = self.wait(self.told(operation, work));
        result.map_err(|failure| StorageError::of_failure(operation, &self.path, failure))
    }

    /// Tells the user about operations that take long.
    async fn told<T>(&self, operation: &str, work: impl Future<Output = T>) -> T {
        let (mut work, started) = (pin!(work), Instant::now());
        loop {
            let Ok(result) = tokio::time::timeout(slow::PAUSE, &mut work).await else {
                let seconds = started.elapsed().as_secs();
                slow::tell_of_trouble(&format!("{operation} {}: {seconds} s so far", self.path));
                continue;
            };
            return result;
        }
    }

    /// Waits for a store's operation, but not after the deadline.
    fn wait<T>(&self, future: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
        let Some(deadline) = self.deadline else { return client::wait(future) };
        client::wait(async {
            let answer = tokio::time::timeout_at(deadline.into(), future).await;
            answer.unwrap_or_else(|_| Err(Failure::temporary("the server does not answer in time")))
        })
    }
}

fn make(
    scheme: &str,
    rest: &str,
    place: Option<hub::RepositoryPath>,
) -> Result<Arc<dyn Store>, Failure> {
    Ok(match (scheme, place) {
        ("hf", Some(place)) => Arc::new(hub::Hub::new(place)),
        ("http", _) => Arc::new(web::Web { scheme: "http" }),
        ("https", _) => Arc::new(web::Web { scheme: "https" }),
        _ => {
            let name = rest.split('/').next().expect("split yields one part");
            Arc::new(buckets::bucket(scheme, name)?)
        }
    })
}

/// Joins a folder's key and the name of an entry.
fn join(folder: &str, name: &str) -> String {
    match (folder, name) {
        ("", name) => name.to_string(),
        (folder, "") => folder.to_string(),
        (folder, name) => format!("{folder}/{name}"),
    }
}
