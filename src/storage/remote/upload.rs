//! A file being written elsewhere. Small ones go in one request, larger ones in parts; neither is
//! seen before it is complete. What all uploads together have in memory is bounded.

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
use crate::storage::error::StorageError;
use crate::storage::slow::Transfer;

/// Bytes of a part; stores take 10,000 parts.
const PART: usize = 16 << 20;

/// Up to this many bytes go in one request where their number is known before: a chunk of an array, of at
/// most 64 MiB, and what compressing may add to it. A single request can have a condition, and leaves no
/// parts behind when its process is killed.
const WHOLE: usize = 65 << 20;

/// Parts of one file that are on their way at once.
const AT_ONCE: usize = 4;

/// Memory for all parts on their way and all files of known sizes, in KiB.
const MEMORY_KIB: usize = 256 << 10;

/// How often a file is tried to be written while others write it.
const TRIES: usize = 5;

/// A file being written elsewhere. Dropped before [`Upload::finish`], it leaves nothing there.
pub(in crate::storage) struct Upload {
    remote: Remote,
    buffer: Vec<u8>,
    /// What the buffer grows to before it goes in parts.
    longest: usize,
    /// That of a buffer whose size was known.
    memory: Option<OwnedSemaphorePermit>,
    parts: Option<Parts>,
    sent: u64,
    transfer: Transfer,
}

/// A file that goes in parts.
struct Parts {
    upload: Box<dyn MultipartUpload>,
    sending: JoinSet<object_store::Result<()>>,
}

/// What a file must be like to be replaced.
#[derive(PartialEq)]
enum Condition {
    /// It is not there.
    Absent,
    /// It is in this state.
    Unchanged(Version),
    /// The store knows no conditions.
    Unknown,
}

impl Upload {
    /// Starts with `bytes`; nothing is sent before there is a part's worth.
    pub(in crate::storage) fn new(remote: Remote, bytes: Vec<u8>) -> Self {
        let transfer = Transfer::new(format!("sending {}", remote.path), None);
        let (longest, memory) = (PART, None);
        Self { remote, buffer: bytes, longest, memory, parts: None, sent: 0, transfer }
    }

    /// Starts a file of about so many bytes, which goes in one request if a chunk may be as large. Waits
    /// until there is memory for it: who has it must go on to write, and wait for no other upload.
    pub(in crate::storage) fn sized(remote: Remote, size: usize) -> Self {
        if size > WHOLE {
            return Self::new(remote, Vec::new());
        }
        let memory = wait(memory(size));
        let mut upload = Self::new(remote, Vec::with_capacity(size));
        upload.longest = WHOLE;
        upload.memory = Some(memory);
        upload
    }

    /// Sends what is left and makes the file appear.
    pub(in crate::storage) fn finish(mut self) -> Result<(), StorageError> {
        let rest = Bytes::from(std::mem::take(&mut self.buffer));
        match self.parts.take() {
            None => self.remote.put_bytes(rest),
            Some(parts) => self.complete(parts, rest),
        }
    }

    /// As [`Upload::finish`], but writes only as long as `allowed`, and replaces nothing that was written
    /// since. What went in parts is put together, as often as it takes, right after it was asked for.
    ///
    /// # Errors
    /// Those of `allowed`; the store fails.
    pub(in crate::storage) fn finish_while<E: From<StorageError>>(
        mut self,
        allowed: &dyn Fn() -> Result<(), E>,
    ) -> Result<(), E> {
        let rest = Bytes::from(std::mem::take(&mut self.buffer));
        match self.parts.take() {
            None => self.remote.put_while(&rest, allowed),
            Some(parts) => {
                // `object_store` completes parts without conditions.
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
                // Where the store's answer is lost, it knows nothing of these parts the next time.
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

    /// Sends all parts that are full.
    fn send(&mut self) -> Result<(), Failure> {
        let mut bytes = Bytes::from(std::mem::take(&mut self.buffer));
        // Parts have their own; who waited for it and kept this could wait for ever.
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
    /// Begins to send a part, as soon as there is memory for it.
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

    /// Best effort. What a process that is killed leaves stays until a rule of the bucket removes it; see
    /// `docs/storage.md`.
    fn abort(mut self) {
        wait(async {
            self.sending.shutdown().await;
            let _ = self.upload.abort().await;
        });
    }
}

impl Remote {
    /// Makes the file as long as `allowed`, which is asked before each attempt and after the last. One that is
    /// there is replaced only if nobody has changed it since `allowed` said yes: however late the bytes
    /// arrive, they replace nothing that was written after that.
    ///
    /// One window remains: a request that is under way while the place is lost may make a file where there
    /// is none, or where the store knows no conditions. Then the error of `allowed` says so at least.
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
                // Also where it is our own, and the store's answer was lost.
                Err(Failure::Conflict | Failure::NotFound) if conflicts < TRIES => {
                    conflicts += 1;
                    // The order counts: what is there before `allowed` says yes is nobody's who took over.
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

    /// One attempt to write the file on a condition.
    async fn put_on(&self, condition: &Condition, bytes: &Bytes) -> Result<(), Failure> {
        let expected = match condition {
            Condition::Unknown => return self.store.put(&self.key, bytes.clone()).await,
            Condition::Absent => None,
            Condition::Unchanged(version) => Some(version),
        };
        self.store.put_if(&self.key, bytes.clone(), expected).await.map(drop)
    }

    /// Whether the file is there with so many bytes, and is not what it was before, where that is known.
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

    /// Whether a file can be sent in parts here; nothing is left of the attempt.
    pub(in crate::storage) fn try_parts(&self) -> Result<(), StorageError> {
        let tried = wait(async {
            let mut upload = retry(limits(), &self.path, || self.store.upload(&self.key)).await?;
            Ok(upload.abort().await?)
        });
        tried.map_err(|failure| StorageError::of_failure("write in parts", &self.path, failure))
    }
}

/// Memory for so many bytes, once there is as much.
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

    /// Nothing is seen before the end anyway.
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
