//! Reads files at any position, local or remote.

use std::fmt;
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;

use super::error::StorageError;
use super::path::Path;
use super::remote::RemoteRanges;

/// A file open for reading at any position. All bytes belong to one state of the file: a remote
/// file that changes in the meantime is an error.
pub struct RangeFile {
    path: Path,
    place: RangeSource,
}

enum RangeSource {
    Disk { file: File, size: u64 },
    Elsewhere(RemoteRanges),
}

impl fmt::Debug for RangeFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RangeFile").field("path", &self.path).finish_non_exhaustive()
    }
}

impl RangeFile {
    pub(super) fn on_disk(path: Path, file: File, size: u64) -> Self {
        Self { path, place: RangeSource::Disk { file, size } }
    }

    pub(super) fn elsewhere(path: Path, ranges: RemoteRanges) -> Self {
        Self { path, place: RangeSource::Elsewhere(ranges) }
    }

    /// The file's path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The file's size in bytes when it was opened.
    pub fn size(&self) -> u64 {
        match &self.place {
            RangeSource::Disk { size, .. } => *size,
            RangeSource::Elsewhere(ranges) => ranges.size(),
        }
    }

    /// Reads the bytes of a range, which must lie within the file.
    pub fn read(&self, range: Range<u64>) -> Result<Vec<u8>, StorageError> {
        Ok(self.read_all(&[range])?.pop().expect("one range gives one result"))
    }

    /// Reads the bytes of several ranges; remote ranges are fetched at the same time.
    ///
    /// # Errors
    /// A range extends beyond the end of the file, or reading fails.
    pub fn read_all(&self, ranges: &[Range<u64>]) -> Result<Vec<Vec<u8>>, StorageError> {
        if let Some(range) = ranges.iter().find(|range| range.end > self.size()) {
            let reason = format!("byte {} lies beyond its end at {}", range.end, self.size());
            let error = std::io::Error::new(std::io::ErrorKind::UnexpectedEof, reason);
            return Err(StorageError::new("read", &self.path, error));
        }
        match &self.place {
            RangeSource::Disk { file, .. } => {
                let read = |range: &Range<u64>| {
                    let mut bytes = vec![0; range.end.saturating_sub(range.start) as usize];
                    file.read_exact_at(&mut bytes, range.start).map(|()| bytes)
                };
                let all = ranges.iter().map(read).collect::<Result<_, _>>();
                all.map_err(|error| StorageError::new("read", &self.path, error))
            }
            RangeSource::Elsewhere(elsewhere) => elsewhere
                .read(ranges)
                .map_err(|failure| StorageError::of_failure("read", &self.path, failure)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_come_in_the_order_asked_for_and_none_reaches_behind_the_end() {
        let dir = tempfile::tempdir().unwrap();
        let path = Path::try_from(dir.path()).unwrap().join("a");
        path.write_atomic(b"0123456789").unwrap();
        let file = path.open_ranges().unwrap();
        assert_eq!(file.size(), 10);
        assert_eq!(file.read_all(&[8..10, 0..2, 5..5]).unwrap(), [&b"89"[..], b"01", b""]);
        let message = file.read(8..11).unwrap_err().to_string();
        assert!(message.contains("byte 11 lies beyond its end at 10"), "{message}");
    }
}
