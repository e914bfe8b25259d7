//! Reads a remote file from start to end: ranges are fetched ahead of the reader, as far as its
//! speed and the memory of all readers allow, and interrupted or stalled ranges continue from where
//! they stopped.

use std::collections::VecDeque;
use std::io::{self, Read};
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use bytes::{Buf, Bytes};
use futures::StreamExt;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::AbortHandle;

use super::Remote;
use super::client::{runtime, wait};
use super::failure::Failure;
use super::limits::{Limits, limits};
use super::retry::{Backoff, retry};
use super::store::{Fetched, Version};
use super::sum::Running;
use crate::error::StorageError;

/// Memory for the bytes that all readers fetch ahead, in KiB. A reader without such memory reads
/// bytes as they arrive.
const AHEAD_KIB: usize = 256 << 10;

/// Number of chunks between network and reader, for the range being read.
const CHUNKS: usize = 4;

/// Number of bytes after which a reader is expected to continue, so that reading ahead is useful.
const WARM: u64 = 256 << 10;

/// A remote file that is being read.
pub(crate) struct Stream {
    source: Arc<Source>,
    parts: VecDeque<Fetch>,
    chunk: Bytes,
    /// Offset of the reader.
    position: u64,
    opened_at: u64,
    /// Offset at which to stop; at most the file's end.
    until: u64,
    /// The end of the last requested part.
    asked: u64,
    /// The running checksum of a file that is read completely, if the store sends its checksum.
    sum: Option<Running>,
}

/// The state that the parts of a file share.
pub(super) struct Source {
    pub remote: Remote,
    pub version: Version,
    pub ranged: bool,
    pub limits: Limits,
}

/// A range that is being fetched.
struct Fetch {
    range: Range<u64>,
    chunks: Receiver<Result<Bytes, Failure>>,
    task: AbortHandle,
    _memory: Option<OwnedSemaphorePermit>,
}

impl Drop for Fetch {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Stream {
    /// Requests the first range, which shows whether the file exists and its size.
    pub(crate) fn open(remote: Remote, wanted: Range<u64>) -> Result<Self, Failure> {
        let limits = limits();
        let offset = wanted.start;
        let range = offset..offset.saturating_add(limits.part_size).min(wanted.end);
        let fetched = wait(retry(limits.clone(), &remote.path, || {
            remote.store.fetch(&remote.key, range.clone())
        }));
        let (fetched, version, ranged) = match fetched {
            Ok(fetched) => {
                let version = fetched.version.clone();
                let ranged = fetched.ranged;
                (Some(fetched), version, ranged)
            }
            Err(Failure::PastEnd) => (None, wait(remote.stat())?, true),
            Err(failure) => return Err(failure),
        };
        // Without a known size, the end is where the server stops.
        let until = version.size.unwrap_or(u64::MAX).min(wanted.end);
        let first = if ranged { range.end.min(until) } else { until };
        let is_whole = offset == 0 && version.size.unwrap_or(u64::MAX) == until;
        let sum = version.crc32c.filter(|_| is_whole).map(Running::new);
        let source = Arc::new(Source { remote, version, ranged, limits });
        let mut stream = Self {
            source,
            parts: VecDeque::new(),
            chunk: Bytes::new(),
            position: offset,
            opened_at: offset,
            until,
            asked: first,
            sum,
        };
        if let Some(fetched) = fetched.filter(|_| offset < first) {
            stream.start(offset..first, Some(fetched), None);
        }
        Ok(stream)
    }

    fn start(
        &mut self,
        range: Range<u64>,
        first: Option<Fetched>,
        memory: Option<OwnedSemaphorePermit>,
    ) {
        // A part with granted memory is fetched to its end before it is read.
        let (sender, chunks) = channel(if memory.is_some() { 1 << 20 } else { CHUNKS });
        let pump = pump(self.source.clone(), range.clone(), first, sender);
        let task = runtime().spawn(pump).abort_handle();
        self.asked = range.end;
        self.parts.push_back(Fetch { range, chunks, task, _memory: memory });
    }

    /// Requests the following parts, if the reader keeps reading and memory is available.
    fn read_ahead(&mut self) {
        let limits = &self.source.limits;
        let (ahead, size) = (limits.parts_ahead, limits.part_size);
        let warm = self.position - self.opened_at >= WARM.min(size);
        while warm && self.source.ranged && self.asked < self.until && self.parts.len() <= ahead {
            let range = self.asked..(self.asked + size).min(self.until);
            let Some(memory) = grant(range.end - range.start) else { break };
            self.start(range, None, Some(memory));
        }
    }

    /// Compares the bytes with the store's checksum, at the end of a whole file.
    fn check_sum(&self) -> io::Result<()> {
        let checked = self.sum.map_or(Ok(()), |sum| sum.check());
        let path = &self.source.remote.path;
        checked.map_err(|failure| StorageError::of_failure("read", path, failure).into())
    }

    /// Returns the next bytes; `None` at the end.
    fn next_chunk(&mut self) -> Result<Option<Bytes>, Failure> {
        loop {
            self.read_ahead();
            let Some(part) = self.parts.front_mut() else {
                if self.position >= self.until || !self.source.ranged {
                    return Ok(None);
                }
                let end = (self.position + self.source.limits.part_size).min(self.until);
                self.start(self.position..end, None, None);
                continue;
            };
            match part.chunks.blocking_recv() {
                Some(Ok(bytes)) => return Ok(Some(bytes)),
                Some(Err(failure)) => return Err(failure),
                None if !self.source.ranged || self.position == part.range.end => {
                    self.parts.pop_front();
                }
                None => {
                    let reason = "its transfer ended without a reason";
                    return Err(Failure::Permanent(reason.to_string()));
                }
            }
        }
    }
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        if self.chunk.is_empty() {
            match self.next_chunk() {
                Ok(None) => {
                    self.check_sum()?;
                    return Ok(0);
                }
                Ok(Some(chunk)) => self.chunk = chunk,
                Err(failure) => {
                    let path = &self.source.remote.path;
                    let operation = format!("read byte {} of", self.position);
                    return Err(StorageError::of_failure(operation, path, failure).into());
                }
            }
        }
        let count = buffer.len().min(self.chunk.len());
        self.chunk.copy_to_slice(&mut buffer[..count]);
        self.position += count as u64;
        if let Some(sum) = &mut self.sum {
            sum.add(&buffer[..count]);
        }
        // Checked with the last bytes, because a reader that knows the size does not read further.
        if self.position >= self.until {
            self.check_sum()?;
        }
        Ok(count)
    }
}

/// Reserves memory for a part, if all readers together leave enough.
fn grant(bytes: u64) -> Option<OwnedSemaphorePermit> {
    static AHEAD: OnceLock<Arc<Semaphore>> = OnceLock::new();
    let ahead = AHEAD.get_or_init(|| Arc::new(Semaphore::new(AHEAD_KIB)));
    let kib = u32::try_from(bytes.div_ceil(1 << 10)).ok()?;
    ahead.clone().try_acquire_many_owned(kib).ok()
}

/// Sends the bytes of a range to the reader, and then the failure that ended it, if any.
pub(super) async fn pump(
    source: Arc<Source>,
    range: Range<u64>,
    mut first: Option<Fetched>,
    sender: Sender<Result<Bytes, Failure>>,
) {
    let mut position = range.start;
    let mut backoff = Backoff::new(source.limits.clone(), &source.remote.path);
    while position < range.end {
        let before = position;
        let fetched = match first.take() {
            Some(fetched) => Ok(fetched),
            None => source.fetch(position..range.end).await,
        };
        let result = match fetched {
            Ok(fetched) => source.hand_over(fetched, &mut position, range.end, &sender).await,
            Err(failure) => Err(failure),
        };
        if position > before {
            backoff.progressed();
        }
        let Err(failure) = result else { return };
        if let Err(failure) = backoff.pause(failure).await {
            // The send fails only if the reader is gone.
            let _ = sender.send(Err(failure)).await;
            return;
        }
    }
}

impl Source {
    async fn fetch(&self, range: Range<u64>) -> Result<Fetched, Failure> {
        let at = range.start;
        let last = range.end.min(at.saturating_add(self.limits.part_size.max(1 << 20)));
        let asked = if range.end == u64::MAX { at..last } else { range };
        match self.remote.store.fetch(&self.remote.key, asked).await {
            Ok(fetched) if fetched.version.agrees(&self.version) => Ok(fetched),
            Ok(_) | Err(Failure::PastEnd) => Err(Failure::Changed(at)),
            Err(Failure::NotFound) => Err(Failure::Vanished(at)),
            Err(failure) => Err(failure),
        }
    }

    /// Passes bytes to the reader until the range is complete.
    async fn hand_over(
        &self,
        mut fetched: Fetched,
        position: &mut u64,
        end: u64,
        sender: &Sender<Result<Bytes, Failure>>,
    ) -> Result<(), Failure> {
        // A server without ranges starts from the beginning: known bytes are skipped.
        let mut skip = position.saturating_sub(fetched.start);
        while *position < end {
            let next = tokio::time::timeout(self.limits.stall, fetched.bytes.next()).await;
            let mut bytes = match next {
                Ok(Some(bytes)) => bytes?,
                Ok(None) if end == u64::MAX => return Ok(()),
                Ok(None) => return Err(Failure::temporary("the transfer was cut")),
                Err(_) => {
                    let seconds = self.limits.stall.as_secs_f64();
                    return Err(Failure::temporary(format!("no byte came for {seconds} s")));
                }
            };
            let passed = skip.min(bytes.len() as u64);
            bytes.advance(passed as usize);
            skip -= passed;
            bytes.truncate(usize::try_from(end - *position).unwrap_or(usize::MAX));
            if bytes.is_empty() {
                continue;
            }
            *position += bytes.len() as u64;
            if sender.send(Ok(bytes)).await.is_err() {
                return Ok(());
            }
        }
        Ok(())
    }
}
