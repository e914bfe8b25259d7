//! A file elsewhere, read from front to back: ranges are fetched ahead of the reader, as many as its
//! pace and the memory of all readers allow, and cut or stalled ones go on where they stopped.

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
use crate::storage::error::StorageError;

/// Memory for what all readers fetch ahead, in KiB. A reader that gets none reads as the bytes come.
const AHEAD_KIB: usize = 256 << 10;

/// Chunks between network and reader, of the range being read.
const CHUNKS: usize = 4;

/// A reader that took so much reads on, and is worth reading ahead for.
const WARM: u64 = 256 << 10;

/// A file elsewhere, being read.
pub(in crate::storage) struct Stream {
    source: Arc<Source>,
    parts: VecDeque<Part>,
    chunk: Bytes,
    /// Where the reader is.
    position: u64,
    opened_at: u64,
    /// Where to stop; at the file's end at the latest.
    until: u64,
    /// The end of the last part that was asked for.
    asked: u64,
    /// Of a file that is read whole, and whose sum the store sends.
    sum: Option<Running>,
}

/// What the parts of a file share.
pub(super) struct Source {
    pub remote: Remote,
    pub version: Version,
    pub ranged: bool,
    pub limits: Limits,
}

/// A range that is being fetched.
struct Part {
    range: Range<u64>,
    chunks: Receiver<Result<Bytes, Failure>>,
    task: AbortHandle,
    _memory: Option<OwnedSemaphorePermit>,
}

impl Drop for Part {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Stream {
    /// Asks for the first range, and so learns whether the file is there and how large it is.
    pub(in crate::storage) fn open(remote: Remote, wanted: Range<u64>) -> Result<Self, Failure> {
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
        // Without a size the end is where the server stops.
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

    /// Whether the file may be in this state.
    pub(super) fn is_of(&self, version: &Version) -> bool {
        self.source.version.agrees(version)
    }

    fn start(
        &mut self,
        range: Range<u64>,
        first: Option<Fetched>,
        memory: Option<OwnedSemaphorePermit>,
    ) {
        // A part whose memory is granted is fetched to its end before anyone reads it.
        let (sender, chunks) = channel(if memory.is_some() { 1 << 20 } else { CHUNKS });
        let pump = pump(self.source.clone(), range.clone(), first, sender);
        let task = runtime().spawn(pump).abort_handle();
        self.asked = range.end;
        self.parts.push_back(Part { range, chunks, task, _memory: memory });
    }

    /// Asks for what follows, where the reader keeps going and memory is left.
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

    /// Compares what was read with the store's sum, at the end of a whole file.
    fn check_sum(&self) -> io::Result<()> {
        let checked = self.sum.map_or(Ok(()), |sum| sum.check());
        let path = &self.source.remote.path;
        checked.map_err(|failure| StorageError::of_failure("read", path, failure).into())
    }

    /// The next bytes; nothing at the end.
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
        // With the last bytes, behind which a reader that knows the size asks for no more.
        if self.position >= self.until {
            self.check_sum()?;
        }
        Ok(count)
    }
}

/// Memory for a part, if all readers together leave so much.
fn grant(bytes: u64) -> Option<OwnedSemaphorePermit> {
    static AHEAD: OnceLock<Arc<Semaphore>> = OnceLock::new();
    let ahead = AHEAD.get_or_init(|| Arc::new(Semaphore::new(AHEAD_KIB)));
    let kib = u32::try_from(bytes.div_ceil(1 << 10)).ok()?;
    ahead.clone().try_acquire_many_owned(kib).ok()
}

/// Hands over the bytes of a range, and then the failure that ended it, if one did.
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
            // Nobody to tell: the reader is gone.
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

    /// Passes bytes on until the range is complete.
    async fn hand_over(
        &self,
        mut fetched: Fetched,
        position: &mut u64,
        end: u64,
        sender: &Sender<Result<Bytes, Failure>>,
    ) -> Result<(), Failure> {
        // A server without ranges starts anew: what is known already is passed over.
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
