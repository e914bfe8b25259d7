//! The one file of weights while it is written, tensor by tensor. On disk it has another name until it is
//! whole, and a journal beside it: where the conversion is killed, the next one goes on behind the last whole
//! tensor. In a store nothing is seen of an upload that is not whole, and it begins anew.

use std::collections::VecDeque;
use std::io::{self, BufReader, Read, Write};

use flate2::{Crc, CrcReader};
use serde::{Deserialize, Serialize};

use crate::checkpoint::error::CheckpointError;
use crate::checkpoint::journal::{Job, Journal, noted, tell_kept, tell_left};
use crate::storage::{FileWriter, Lock, Locked, Path, StorageError};
use crate::telemetry::Wait;

/// What ends the name of the file while it is written, and that of its journal.
const UNFINISHED: &str = ".unfinished";
const JOURNAL: &str = ".jsonl";

/// Where a tensor lies in the file.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Segment {
    start: u64,
    end: u64,
    /// The sums of its bytes.
    #[serde(flatten)]
    sums: Sums,
    /// CRC-32 of what lies between the tensor before and it.
    before: u32,
}

/// The checksums that formats ask for.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Sums {
    /// That of zip archives.
    pub crc32: u32,
    /// That of TensorFlow.
    pub crc32c: u32,
}

/// A file of tensors being written. Dropped before [`TensorFile::finish`], it leaves on disk what the next
/// conversion goes on with; see [`TensorFile::give_up`].
pub(super) struct TensorFile {
    target: Path,
    /// `None` in a store.
    staged: Option<Staged>,
    out: FileWriter,
    position: u64,
    /// Tensors that are there already and have yet to come, in their order.
    kept: VecDeque<Segment>,
    /// Where the last of them ends.
    kept_end: u64,
    /// The sum of what was written since the last tensor.
    crc: Crc,
    /// The same, as TensorFlow sums.
    crc32c: u32,
}

impl TensorFile {
    /// Begins a file, or goes on with what a conversion of the same job has left of it that was killed. It is
    /// seen where `mark` is there, which may be the file itself; without, its name is given anew.
    ///
    /// # Errors
    /// Another process writes it; it cannot be written.
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
            // Another has finished it meanwhile.
            if lock.is_some() {
                unfinished.remove_file()?;
            }
            let reason = "it is there already; name another file or remove it".to_string();
            return Err(CheckpointError::Export { path: target.to_string(), reason });
        }
        let noted = match &lock {
            Some(_) => noted(&journal, job)?.unwrap_or_default(),
            // Its writer may be alive.
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

    /// The bytes so far.
    pub(super) fn position(&self) -> u64 {
        self.position
    }

    /// Adds a tensor, unless it is there already, and yields the sums of its bytes.
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

    /// The sums of what was written since they were taken last.
    fn take_sums(&mut self) -> Sums {
        let crc32 = std::mem::take(&mut self.crc).sum();
        Sums { crc32, crc32c: std::mem::take(&mut self.crc32c) }
    }

    /// Takes note of bytes that are in the file.
    fn passed(&mut self, bytes: &[u8]) {
        self.crc.update(bytes);
        self.crc32c = crc32c::crc32c_append(self.crc32c, bytes);
        self.position += bytes.len() as u64;
    }

    /// Makes the file durable and gives it its name.
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

    /// What is there is not what this conversion would have written.
    fn refuse_kept(&mut self) -> io::Error {
        let Self { target, staged, .. } = self;
        staged.iter_mut().for_each(|staged| staged.stays = false);
        io::Error::other(format!(
            "what an interrupted conversion left of {target} is of another one and was removed; call it again"
        ))
    }

    /// Gives up what a conversion left that failed. It stays where the next one may succeed, and is removed
    /// elsewhere, unless another goes on with it by now.
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

/// The names that a file on disk has until it is whole, and its journal.
fn beside(target: &Path) -> (Path, Path) {
    let unfinished = target.suffixed(UNFINISHED);
    let journal = unfinished.suffixed(JOURNAL);
    (unfinished, journal)
}

impl Write for TensorFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // What comes before a tensor that is there is there too.
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

/// A file on disk under the name that it has until it is whole.
struct Staged {
    unfinished: Path,
    /// `None` once all tensors are written.
    journal: Option<Journal>,
    /// Whether it is not removed when dropped: it has its name, or the next conversion may go on with it.
    stays: bool,
    /// Shows others that the writer is alive.
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
            // The error that matters is told by whoever gives up.
            let _ = self.journal.take().map(Journal::end);
            let _ = self.unfinished.remove_file();
        }
    }
}

/// The tensors, from the first on, whose bytes are as they were written.
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
