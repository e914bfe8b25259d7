//! Reads a file on disk or elsewhere as a stream, for parsers that skip most of its bytes.

use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;

use gimlet_storage::RangeFile;

/// A position in a file, and the window of bytes that was read last.
pub(super) struct Scan<'a> {
    file: &'a RangeFile,
    /// Number of bytes that are read at a time.
    window: u64,
    /// Number of bytes that may still be read.
    left: u64,
    at: u64,
    held: Vec<u8>,
    /// Offset of the held bytes in the file.
    start: u64,
}

impl<'a> Scan<'a> {
    /// A scan from the beginning of a file, which fails after `most` bytes.
    pub fn new(file: &'a RangeFile, window: u64, most: u64) -> Self {
        Self { file, window, left: most, at: 0, held: Vec::new(), start: 0 }
    }

    /// Passes some bytes without reading them, and returns their range.
    pub fn skip(&mut self, length: u64) -> io::Result<Range<u64>> {
        let end = self.at.checked_add(length).filter(|end| *end <= self.file.size());
        let end = end.ok_or(io::ErrorKind::UnexpectedEof)?;
        Ok(std::mem::replace(&mut self.at, end)..end)
    }

    /// Reads the window at the position, or that before the end of the file.
    fn fetch(&mut self) -> io::Result<()> {
        let start = self.at.min(self.file.size().saturating_sub(self.window));
        let end = (start + self.window).min(self.file.size());
        let too_much = || io::Error::new(io::ErrorKind::InvalidData, "too many bytes to read");
        self.left = self.left.checked_sub(end - start).ok_or_else(too_much)?;
        (self.held, self.start) = (self.file.read(start..end)?, start);
        Ok(())
    }
}

impl Read for Scan<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.at >= self.file.size() {
            return Ok(0);
        }
        if !(self.start..self.start + self.held.len() as u64).contains(&self.at) {
            self.fetch()?;
        }
        let read = (&self.held[(self.at - self.start) as usize..]).read(buffer)?;
        self.at += read as u64;
        Ok(read)
    }
}

impl Seek for Scan<'_> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let to = match to {
            SeekFrom::Start(offset) => Some(offset),
            SeekFrom::Current(change) => self.at.checked_add_signed(change),
            SeekFrom::End(change) => self.file.size().checked_add_signed(change),
        };
        self.at = to.ok_or(io::ErrorKind::InvalidInput)?;
        Ok(self.at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gimlet_storage::Path;

    #[test]
    fn a_scan_reads_windows_from_any_position_and_no_more_than_its_limit() {
        let dir = tempfile::tempdir().unwrap();
        let path = Path::try_from(&*dir.path().join("x")).unwrap();
        path.write_atomic(b"abcdefghij").unwrap();
        let file = path.open_ranges().unwrap();
        let mut scan = Scan::new(&file, 4, 12);
        let check = |scan: &mut Scan<'_>, to, expected: &[u8]| {
            scan.seek(to).unwrap();
            let mut bytes = vec![0; expected.len()];
            scan.read_exact(&mut bytes).unwrap();
            assert_eq!(bytes, expected);
        };
        // The window before the end contains all of these.
        check(&mut scan, SeekFrom::End(-2), b"ij");
        check(&mut scan, SeekFrom::Start(6), b"ghi");
        assert_eq!(scan.left, 8);
        check(&mut scan, SeekFrom::Current(-7), b"cdefg");
        assert_eq!(scan.left, 0);
        assert_eq!(scan.skip(3).unwrap(), 7..10);
        assert_eq!(scan.read(&mut [0]).unwrap(), 0);
        assert!(scan.skip(1).is_err() && scan.seek(SeekFrom::End(-11)).is_err());
        scan.seek(SeekFrom::Start(0)).unwrap();
        let error = scan.read(&mut [0]).unwrap_err();
        assert_eq!(error.to_string(), "too many bytes to read");
    }
}
