//! Writes remote files. Small files are sent in one request, larger ones in parts; neither is
//! visible before it is complete. The memory of all uploads together is limited.

use std::io::{self, Write};
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use object_store::MultipartUpload;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;

use super::Remote;
use super::client::{runtime, wait};
use super::failure::Failure;
use super::limits::limits;
use super::retry::{Backoff, retry};
use super::store::Version;
use crate::error::StorageError;
use crate::slow::Transfer;

/// Number of bytes of a part; stores accept 10,000 parts.
const PART: usize = 16 << 20;

/// Maximum number of bytes of a file of known size that is sent in one request: a chunk of an
/// array, of at most 64 MiB, and the bytes that compression may add. A single request can have a
/// condition, and leaves no parts behind when its process is killed.
const WHOLE: usize = 65 << 20;

/// Maximum number of parts of one file in transfer at once.
const AT_ONCE: usize = 4;

/// Memory for all parts in transfer and all files of known sizes, in KiB.
const MEMORY_KIB: usize = 256 << 10;

/// Maximum number of attempts to write a file while others write it.
const TRIES: usize = 5;

/// A remote file that is being written. When dropped before [`Upload::finish`], it leaves no file.
pub(crate) struct Upload {
    remote: Remote,
    buffer: Vec<u8>,
    /// Maximum size of the buffer before the file is sent in parts.
    longest: usize,
    /// The memory of a buffer whose size was known.
    memory: Option<OwnedSemaphorePermit>,
    parts: Option<Parts>,
    sent: u64,
    transfer: Transfer,
}

/// A file that is sent in parts.
struct Parts {
    upload: Box<dyn MultipartUpload>,
    sending: JoinSet<object_store::Result<()>>,
}

/// The condition for replacing a file.
#[derive(PartialEq)]
enum Condition {
    /// The file does not exist.
    Absent,
    /// The file is in this state.
    Unchanged(Version),
    /// The store does not support conditions.
    Unknown,
}

impl Upload {
    /// Starts a file with `bytes`; nothing is sent before a part is full.
    pub(crate) fn new(remote: Remote, bytes: Vec<u8>) -> Self {
        let transfer = Transfer::new(format!("sending {}", remote.path));
        let (longest, memory) = (PART, None);
        Self { remote, buffer: bytes, longest, memory, parts: None, sent: 0, transfer }
    }

    /// Starts a file of approximately `size` bytes, which is sent in one request if it is no larger
    /// than a chunk may be. Waits until there is memory for the file: the owner must keep writing,
    /// and must not wait for another upload.
    pub(crate) fn sized(remote: Remote, size: usize) -> Self {
        if size > WHOLE {
            return Self::new(remote, Vec::new());
        }
        let memory = wait(memory(size));
        let mut upload = Self::new(remote, Vec::with_capacity(size));
        upload.longest = WHOLE;
        upload.memory = Some(memory);
        upload
    }

    /// Sends the remaining bytes and makes the file visible.
    pub(crate) fn finish(mut self) -> Result<(), StorageError> {
        let rest = Bytes::from(std::mem::take(&mut self.buffer));
        match self.parts.take() {
            None => self.remote.put_bytes(rest),
            Some(parts) => self.complete(parts, rest),
        }
    }

    /// Like [`Upload::finish`], but writes only while `allowed` succeeds, and does not replace a file
    /// that was written since. Parts are joined, with retries, right after `allowed` was checked.
    ///
    /// # Errors
    /// Errors of `allowed`; the store fails.
    pub(crate) fn finish_while<E: From<StorageError>>(
        mut self,
        allowed: &dyn Fn() -> Result<(), E>,
    ) -> Result<(), E> {
        let rest = Bytes::from(std::mem::take(&mut self.buffer));
        match self.parts.take() {
            None => self.remote.put_while(&rest, allowed),
            Some(parts) => {
                // `object_store` joins parts without conditions.
                if let Err(refused) = allowed() {
                    parts.abort();
                    return Err(refused);
                }
                self.complete(parts, rest)?;
                allowed()
            }
        }
    }

    fn complete(&self, mut parts: Parts, rest: Bytes) -> Result<(), StorageError> {
        let size = self.sent + rest.len() as u64;
        let completed = wait(async {
            if !rest.is_empty() {
                parts.send(rest).await?;
            }
            parts.await_fewer_than(1).await?;
            let before = self.remote.stat().await.ok();
            match parts.complete().await {
                // If the store's answer was lost, the store no longer knows these parts on the next
                // attempt.
                Err(Failure::NotFound | Failure::Permanent(_))
                    if self.remote.became(size, before.as_ref()).await =>
                {
                    Ok(())
                }
                completed => completed,
            }
        });
        completed.map_err(|failure| {
            parts.abort();
            self.failed(failure)
        })
    }

    /// Sends all full parts.
    fn send(&mut self) -> Result<(), Failure> {
        let mut bytes = Bytes::from(std::mem::take(&mut self.buffer));
        // Parts have their own memory; waiting for it while holding this memory could block
        // forever.
        self.memory = None;
        self.longest = PART;
        let _entered = runtime().enter();
        if self.parts.is_none() {
            let remote = &self.remote;
            let upload = wait(retry(limits(), &remote.path, || remote.store.upload(&remote.key)))?;
            self.parts = Some(Parts { upload, sending: JoinSet::new() });
        }
        let parts = self.parts.as_mut().expect("started above");
        while bytes.len() >= PART {
            wait(parts.send(bytes.split_to(PART)))?;
            self.sent += PART as u64;
            self.transfer.reached(self.sent);
        }
        self.buffer = Vec::with_capacity(PART);
        self.buffer.extend_from_slice(&bytes);
        Ok(())
    }

    fn failed(&self, failure: Failure) -> StorageError {
        StorageError::of_failure("write", &self.remote.path, failure)
    }
}

impl Parts {
    /// Starts sending a part, as soon as there is memory for the part.
    async fn send(&mut self, part: Bytes) -> Result<(), Failure> {
        self.await_fewer_than(AT_ONCE).await?;
        let memory = memory(part.len()).await;
        let sent = self.upload.put_part(part.into());
        self.sending.spawn(async move {
            let sent = sent.await;
            drop(memory);
            sent
        });
        Ok(())
    }

    async fn await_fewer_than(&mut self, count: usize) -> Result<(), Failure> {
        while self.sending.len() >= count
            && let Some(sent) = self.sending.join_next().await
        {
            sent.expect("no part that is sent panics")?;
        }
        Ok(())
    }

    async fn complete(&mut self) -> Result<(), Failure> {
        self.upload.complete().await?;
        Ok(())
    }

    /// Aborts the upload if possible. Parts of a killed process stay until a rule of the bucket
    /// removes them; see `docs/storage.md`.
    fn abort(mut self) {
        wait(async {
            self.sending.shutdown().await;
            let _ = self.upload.abort().await;
        });
    }
}

impl Remote {
    /// Writes the file while `allowed` succeeds; `allowed` is checked before each attempt and after
    /// the last one. An existing file is replaced only if it has not changed since `allowed`
    /// succeeded: however late the bytes arrive, they do not replace anything written after that.
    ///
    /// One gap remains: a request in transfer while this process loses its right to write may
    /// create a file where none exists, or where the store does not support conditions. Then the
    /// error of `allowed` at least reports it.
    fn put_while<E: From<StorageError>>(
        &self,
        bytes: &Bytes,
        allowed: &dyn Fn() -> Result<(), E>,
    ) -> Result<(), E> {
        let (mut backoff, mut conflicts) = (Backoff::new(limits(), &self.path), 0);
        let mut condition = Condition::Absent;
        loop {
            allowed()?;
            match wait(self.put_on(&condition, bytes)) {
                Ok(()) => return allowed(),
                // The conflicting file may also be this process's own, if the store's answer was
                // lost.
                Err(Failure::Conflict | Failure::NotFound) if conflicts < TRIES => {
                    conflicts += 1;
                    // The order matters: a file that exists before `allowed` succeeds does not
                    // belong to a process that took over.
                    condition = self.state()?;
                }
                Err(Failure::Unsupported(_)) if condition != Condition::Unknown => {
                    condition = Condition::Unknown;
                }
                Err(failure) => wait(backoff.pause(failure))
                    .map_err(|failure| StorageError::of_failure("write", &self.path, failure))?,
            }
        }
    }

    /// Makes one attempt to write the file on a condition.
    async fn put_on(&self, condition: &Condition, bytes: &Bytes) -> Result<(), Failure> {
        let expected = match condition {
            Condition::Unknown => return self.store.put(&self.key, bytes.clone()).await,
            Condition::Absent => None,
            Condition::Unchanged(version) => Some(version),
        };
        self.store.put_if(&self.key, bytes.clone(), expected).await.map(drop)
    }

    /// Whether the file exists with `size` bytes, and is not in its earlier state, if that is known.
    async fn became(&self, size: u64, before: Option<&Version>) -> bool {
        let Ok(now) = self.stat().await else { return false };
        now.size == Some(size) && before != Some(&now)
    }

    fn state(&self) -> Result<Condition, StorageError> {
        match self.version() {
            Err(error) if error.is_not_found() => Ok(Condition::Absent),
            version => Ok(Condition::Unchanged(version?)),
        }
    }

    /// Checks whether a file can be sent in parts here; the attempt leaves nothing behind.
    pub(crate) fn try_parts(&self) -> Result<(), StorageError> {
        let tried = wait(async {
            let mut upload = retry(limits(), &self.path, || self.store.upload(&self.key)).await?;
            Ok(upload.abort().await?)
        });
        tried.map_err(|failure| StorageError::of_failure("write in parts", &self.path, failure))
    }
}

/// Waits until memory for `bytes` bytes is available, and reserves it.
async fn memory(bytes: usize) -> OwnedSemaphorePermit {
    static MEMORY: OnceLock<Arc<Semaphore>> = OnceLock::new();
    let memory = MEMORY.get_or_init(|| Arc::new(Semaphore::new(MEMORY_KIB)));
    let kib = u32::try_from(bytes.div_ceil(1 << 10)).expect("it is at most WHOLE");
    memory.clone().acquire_many_owned(kib).await.expect("it is never closed")
}

impl Write for Upload {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.buffer.extend_from_slice(bytes);
        if self.buffer.len() >= self.longest {
            self.send().map_err(|failure| self.failed(failure))?;
        }
        Ok(bytes.len())
    }

    /// Does nothing: no bytes are visible before the end.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        if let Some(parts) = self.parts.take() {
            parts.abort();
        }
    }
}
