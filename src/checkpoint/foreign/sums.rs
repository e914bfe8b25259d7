//! Compares checksums of files of other programs, piece by piece however large the tensors are.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard};

use super::RawTensors;
use crate::blocks::BLOCK_BYTES;
use crate::error::CheckpointError;
use crate::parallel;
use gimlet_storage::{Path, RangeFile};

/// A byte range of a file with at most one checksum.
pub(crate) struct Piece<'a> {
    /// Name of a tensor in the range.
    pub name: &'a str,
    /// File that holds the bytes.
    pub file: &'a RangeFile,
    /// Byte range in the file.
    pub range: Range<u64>,
    /// Expected checksum of the bytes; `None` when the format has none.
    pub expected: Option<Expected<'a>>,
}

/// The expected checksum of a piece.
#[derive(Clone, Copy)]
pub(crate) struct Expected<'a> {
    /// The checksum itself.
    pub sum: Sum,
    /// The set of pieces that already passed the comparison.
    pub compared: &'a Compared,
}

/// The pieces, by file and start, whose checksums were correct: a tensor that is read in parts is
/// verified as a whole only once.
#[derive(Debug, Default)]
pub(crate) struct Compared(Mutex<BTreeSet<(String, u64)>>);

impl Compared {
    fn pieces(&self) -> MutexGuard<'_, BTreeSet<(String, u64)>> {
        self.0.lock().expect("no holder of the pieces panics")
    }
}

/// A checksum of one of the kinds that formats use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sum {
    /// CRC-32, used by zip archives.
    Crc32(u32),
    /// TensorFlow's checksum: CRC-32C, masked.
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

/// A checksum that is being computed.
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

/// Masks a checksum as TensorFlow does for data that contain checksums themselves.
pub(crate) fn mask(crc32c: u32) -> u32 {
    crc32c.rotate_right(15).wrapping_add(0xa282_ead8)
}

impl Piece<'_> {
    /// Reads the given byte range of the file, which lies in the piece, and verifies the whole
    /// piece if that has not been done before.
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

    /// Reads all bytes and compares their checksum.
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

/// Reads and verifies all bytes of the tensors in several threads; stops at the first damage.
pub(super) fn verify(path: &Path, raw: &dyn RawTensors) -> Result<(), CheckpointError> {
    let pieces = raw.pieces();
    parallel::for_each(parallel::num_threads(path), pieces.iter(), Piece::check)
}

/// Returns every damage at which [`verify`] would stop; calls `tell` with the number of bytes done.
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
