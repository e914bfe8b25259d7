//! The file of weights while it is written, tensor by tensor. On disk it has another name until it
//! is complete, and a journal beside it: if the conversion is killed, the next one continues after
//! the last complete tensor. In a store an incomplete upload is not visible, and it starts over.

use std::collections::VecDeque;
use std::io::{self, BufReader, Read, Write};

use flate2::{Crc, CrcReader};
use serde::{Deserialize, Serialize};

use crate::error::CheckpointError;
use crate::journal::{Job, Journal, noted, tell_kept, tell_left};
use gimlet_storage::{FileWriter, Lock, Locked, Path, StorageError};
use gimlet_telemetry::Wait;

/// Suffixes of the unfinished file and of its journal.
const UNFINISHED: &str = ".unfinished";
const JOURNAL: &str = ".jsonl";

/// The position of a tensor in the file.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Segment {
    start: u64,
    end: u64,
    /// Checksums of its bytes.
    #[serde(flatten)]
    sums: Sums,
    /// CRC-32 of the bytes between the previous tensor and this tensor.
    before: u32,
}

/// The checksums that the formats need.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Sums {
    /// CRC-32, used by zip archives.
    pub crc32: u32,
    /// CRC-32C, used by TensorFlow.
    pub crc32c: u32,
}

/// A file of tensors that is being written. When it is dropped before [`TensorFile::finish`], it
/// leaves on disk the part with which the next conversion continues; see [`TensorFile::give_up`].
pub(super) struct TensorFile {
    target: Path,
    /// `None` in a store.
    staged: Option<Staged>,
    out: FileWriter,
    position: u64,
    /// Tensors that are already in the file and have not been requested yet, in their order.
    kept: VecDeque<Segment>,
    /// Offset of the end of the last kept tensor.
    kept_end: u64,
    /// CRC-32 of the bytes since the last tensor.
    crc: Crc,
    /// CRC-32C of the same bytes.
    crc32c: u32,
}

impl TensorFile {
    /// Begins a file, or continues the file of an earlier conversion of the same job that was
    /// killed. The file counts as finished if `mark` exists, which may be the file itself;
    /// otherwise an older file of that name is replaced.
    ///
    /// # Errors
    /// Another process writes the file; it cannot be written.
    pub(super) fn begin(target: &Path, mark: &Path, job: &Job) -> Result<Self, CheckpointError> {
        if !target.is_on_disk() {
            return Ok(Self::of(target, None, target.create()?, VecDeque::new()));
        }
        let (unfinished, journal) = beside(target);
        let out = unfinished.append()?;
        let lock = match unfinished.try_lock()? {
            Locked::Held(lock) => Some(lock),
            Locked::Unsupported => None,
            Locked::Busy => {
                let (path, by) = (unfinished.to_string(), "another process".to_string());
                return Err(CheckpointError::Busy { path, by });
            }
        };
        if mark.exists()? {
            // Another process has finished the file in the meantime.
            if lock.is_some() {
                unfinished.remove_file()?;
            }
            let reason = "it is there already; name another file or remove it".to_string();
            return Err(CheckpointError::Export { path: target.to_string(), reason });
        }
        let noted = match &lock {
            Some(_) => noted(&journal, job)?.unwrap_or_default(),
            // The writer may be alive.
            None => Vec::new(),
        };
        let kept = whole_ones(&unfinished, noted)?;
        let end = kept.back().map_or(0, |last| last.end);
        tell_kept(target, kept.len(), "tensors", end);
        if unfinished.size()? != end {
            unfinished.set_size(end)?;
        }
        let journal = Some(Journal::begin(journal, job, kept.iter())?);
        let staged = Some(Staged { unfinished, journal, stays: true, _lock: lock });
        Ok(Self::of(target, staged, out, kept))
    }

    fn of(target: &Path, staged: Option<Staged>, out: FileWriter, kept: VecDeque<Segment>) -> Self {
        let kept_end = kept.back().map_or(0, |last| last.end);
        let target = target.clone();
        Self { target, staged, out, position: 0, kept, kept_end, crc: Crc::new(), crc32c: 0 }
    }

    /// Number of bytes so far.
    pub(super) fn position(&self) -> u64 {
        self.position
    }

    /// Adds a tensor, unless it is already in the file, and returns the checksums of its bytes.
    pub(super) fn tensor(
        &mut self,
        write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> io::Result<Sums> {
        if let Some(kept) = self.kept.pop_front() {
            let before = self.take_sums().crc32;
            if (kept.start, kept.before) != (self.position, before) {
                return Err(self.refuse_kept());
            }
            self.position = kept.end;
            return Ok(kept.sums);
        }
        let (start, before) = (self.position, self.take_sums().crc32);
        write(self)?;
        let (end, sums) = (self.position, self.take_sums());
        if let Some(staged) = &mut self.staged {
            self.out.flush()?;
            let journal = staged.journal.as_mut().expect("it ends with the file");
            let noted = journal.add(&Segment { start, end, sums, before });
            noted.map_err(io::Error::other)?;
        }
        Ok(sums)
    }

    /// Returns and resets the checksums of the bytes since the last call.
    fn take_sums(&mut self) -> Sums {
        let crc32 = std::mem::take(&mut self.crc).sum();
        Sums { crc32, crc32c: std::mem::take(&mut self.crc32c) }
    }

    /// Updates checksums and position for bytes that are in the file.
    fn passed(&mut self, bytes: &[u8]) {
        self.crc.update(bytes);
        self.crc32c = crc32c::crc32c_append(self.crc32c, bytes);
        self.position += bytes.len() as u64;
    }

    /// Makes the file durable and renames it to its final name.
    pub(super) fn finish(self) -> Result<(), CheckpointError> {
        let Self { target, staged, out, kept, position, .. } = self;
        out.finish()?;
        let Some(staged) = staged else { return Ok(()) };
        if !kept.is_empty() || staged.unfinished.size()? != position {
            let (path, by) = (staged.unfinished.to_string(), "another process".to_string());
            return Err(CheckpointError::Busy { path, by });
        }
        staged.name(&target)
    }

    /// Reports that the existing tensors differ from those that this conversion writes.
    fn refuse_kept(&mut self) -> io::Error {
        let Self { target, staged, .. } = self;
        staged.iter_mut().for_each(|staged| staged.stays = false);
        io::Error::other(format!(
            "an interrupted conversion had written other tensors for {target}, which were removed; run the command again"
        ))
    }

    /// Handles the partial file of a failed conversion. The file stays if a retry may succeed, and
    /// is removed otherwise, unless another process has continued it.
    pub(super) fn give_up(target: &Path, error: &CheckpointError) -> Result<(), CheckpointError> {
        let (unfinished, journal) = beside(target);
        if !target.is_on_disk() || !unfinished.exists()? {
            return Ok(());
        }
        if error.may_pass() {
            tell_left(&unfinished);
        } else if let Locked::Held(_lock) = unfinished.try_lock()? {
            unfinished.remove_file()?;
            journal.remove_file()?;
        }
        Ok(())
    }
}

/// The name of a file on disk until it is complete, and the name of its journal.
fn beside(target: &Path) -> (Path, Path) {
    let unfinished = target.suffixed(UNFINISHED);
    let journal = unfinished.suffixed(JOURNAL);
    (unfinished, journal)
}

impl Write for TensorFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // Bytes before an existing tensor exist too.
        let num_kept = self.kept_end.saturating_sub(self.position).min(bytes.len() as u64);
        if num_kept > 0 {
            self.passed(&bytes[..num_kept as usize]);
            return Ok(num_kept as usize);
        }
        let length = self.out.write(bytes)?;
        self.passed(&bytes[..length]);
        Ok(length)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// A file on disk under its temporary name.
struct Staged {
    unfinished: Path,
    /// `None` once all tensors are written.
    journal: Option<Journal>,
    /// Whether the file is kept when dropped: it has its final name, or the next conversion may
    /// continue it.
    stays: bool,
    /// Shows other processes that the writer is alive.
    _lock: Option<Lock>,
}

impl Staged {
    fn name(mut self, target: &Path) -> Result<(), CheckpointError> {
        self.journal.take().map_or(Ok(()), Journal::end)?;
        self.stays = false;
        self.unfinished.rename(target)?;
        self.stays = true;
        Ok(())
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        let is_empty = self.journal.as_ref().is_some_and(|journal| !journal.has_pieces());
        if !self.stays || is_empty {
            // The caller that gives up reports the error that matters.
            let _ = self.journal.take().map(Journal::end);
            let _ = self.unfinished.remove_file();
        }
    }
}

/// Returns the leading tensors whose bytes still have their checksums.
fn whole_ones(file: &Path, noted: Vec<Segment>) -> Result<VecDeque<Segment>, CheckpointError> {
    let mut whole = VecDeque::new();
    let total = noted.last().map_or(0, |last| last.end);
    let wait = Wait::new(&format!("verifying {file}"), Some(total));
    let mut source = BufReader::with_capacity(1 << 18, file.open()?);
    let mut sum = |length: u64| -> Result<u32, CheckpointError> {
        let mut part = CrcReader::new((&mut source).take(length));
        let read = io::copy(&mut part, &mut io::sink());
        wait.add(read.map_err(|error| StorageError::new("read", file, error))?);
        Ok(part.crc().sum())
    };
    let mut end = 0;
    for segment in noted {
        let Segment { start, end: next, .. } = segment;
        let follows = end <= start && start <= next;
        if !follows
            || sum(start - end)? != segment.before
            || sum(next - start)? != segment.sums.crc32
        {
            break;
        }
        end = next;
        whole.push_back(segment);
    }
    Ok(whole)
}
