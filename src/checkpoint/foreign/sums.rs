//! Checksums of files of other programs, compared piece by piece however large the tensors are.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard};

use super::RawTensors;
use crate::checkpoint::blocks::BLOCK_BYTES;
use crate::checkpoint::error::CheckpointError;
use crate::checkpoint::parallel;
use crate::storage::{Path, RangeFile};

/// Bytes of a file that have one checksum, if any.
pub(in crate::checkpoint) struct Piece<'a> {
    /// A tensor that lies there.
    pub name: &'a str,
    /// The file.
    pub file: &'a RangeFile,
    /// Where in the file.
    pub range: Range<u64>,
    /// What the bytes must sum to; `None` where the format does not tell.
    pub expected: Option<Expected<'a>>,
}

/// What a piece must sum to.
#[derive(Clone, Copy)]
pub(in crate::checkpoint) struct Expected<'a> {
    /// The checksum.
    pub sum: Sum,
    /// Where it is noted that the piece has it.
    pub compared: &'a Compared,
}

/// The pieces, by file and start, that were found to have their checksums: of tensors that are read in
/// parts each is read as a whole only once.
#[derive(Debug, Default)]
pub(in crate::checkpoint) struct Compared(Mutex<BTreeSet<(String, u64)>>);

impl Compared {
    fn pieces(&self) -> MutexGuard<'_, BTreeSet<(String, u64)>> {
        self.0.lock().expect("no holder of the pieces panics")
    }
}

/// A checksum of one of the kinds that formats use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::checkpoint) enum Sum {
    /// That of zip archives.
    Crc32(u32),
    /// TensorFlow's: CRC-32C, masked.
    MaskedCrc32c(u32),
}

impl Sum {
    /// Whether the bytes have this checksum.
    pub fn fits(self, bytes: &[u8]) -> bool {
        let mut running = Running::new(self);
        running.add(bytes);
        running.sum() == self
    }
}

/// A checksum being made.
enum Running {
    Crc32(flate2::Crc),
    Crc32c(u32),
}

impl Running {
    fn new(kind: Sum) -> Self {
        match kind {
            Sum::Crc32(_) => Self::Crc32(flate2::Crc::new()),
            Sum::MaskedCrc32c(_) => Self::Crc32c(0),
        }
    }

    fn add(&mut self, bytes: &[u8]) {
        match self {
            Self::Crc32(crc) => crc.update(bytes),
            Self::Crc32c(crc) => *crc = crc32c::crc32c_append(*crc, bytes),
        }
    }

    fn sum(&self) -> Sum {
        match self {
            Self::Crc32(crc) => Sum::Crc32(crc.sum()),
            Self::Crc32c(crc) => Sum::MaskedCrc32c(mask(*crc)),
        }
    }
}

/// As TensorFlow hides checksums of what holds checksums itself.
pub(in crate::checkpoint) fn mask(crc32c: u32) -> u32 {
    crc32c.rotate_right(15).wrapping_add(0xa282_ead8)
}

impl Piece<'_> {
    /// Reads some of the bytes, which lie in these of the file, and compares the whole piece where that
    /// was not done before.
    pub fn read(&self, range: Range<u64>) -> Result<Vec<u8>, CheckpointError> {
        let is_whole = range == self.range;
        let bytes = self.file.read(range)?;
        match self.expected {
            Some(expected) if is_whole && !expected.sum.fits(&bytes) => return Err(self.changed()),
            Some(expected) if !is_whole && !expected.compared.pieces().contains(&self.key()) => {
                self.check()?;
            }
            _ => {}
        }
        Ok(bytes)
    }

    fn key(&self) -> (String, u64) {
        (self.file.path().to_string(), self.range.start)
    }

    /// Reads the bytes and compares.
    fn check(&self) -> Result<(), CheckpointError> {
        let expected = self.expected.map(|expected| expected.sum);
        let mut running = expected.map(Running::new);
        let mut at = self.range.start;
        while at < self.range.end {
            let end = self.range.end.min(at + BLOCK_BYTES as u64);
            let bytes = self.file.read(at..end)?;
            running.iter_mut().for_each(|running| running.add(&bytes));
            at = end;
        }
        if running.map(|running| running.sum()) != expected {
            return Err(self.changed());
        }
        if let Some(Expected { compared, .. }) = self.expected {
            compared.pieces().insert(self.key());
        }
        Ok(())
    }

    /// The error for bytes with another checksum.
    fn changed(&self) -> CheckpointError {
        let reason = format!("`{}`: its bytes have another checksum than the file says", self.name);
        CheckpointError::damaged(self.file.path(), reason)
    }
}

/// Reads all bytes of tensors by several threads; the first damage ends it.
pub(super) fn verify(path: &Path, raw: &dyn RawTensors) -> Result<(), CheckpointError> {
    let pieces = raw.pieces();
    parallel::for_each(parallel::num_threads(path), pieces.iter(), Piece::check)
}

/// Every damage that [`verify`] would stop at; `tell` is told of the bytes done.
pub(super) fn damages(
    raw: &dyn RawTensors,
    tell: &mut dyn FnMut(u64),
) -> Result<Vec<CheckpointError>, CheckpointError> {
    let mut damages = Vec::new();
    for piece in raw.pieces() {
        match piece.check() {
            Err(error) if error.is_damage() => damages.push(error),
            checked => checked?,
        }
        tell(piece.range.end - piece.range.start);
    }
    Ok(damages)
}
