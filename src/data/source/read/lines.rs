//! The lines of one file.

use std::io::{self, BufRead};

use super::bounded::{
    LONGEST_RECORD, check_line_ends, read_line, too_long, without_byte_order_mark,
};
use super::decode::{Compression, Decoded, open_decoded};
use super::error::read_error;
use super::position::RecordPosition;
use super::record::{Body, RecordReader};
use crate::error::DataError;
use gimlet_storage::Path;

/// Reads a file line by line and knows its position.
pub(super) struct Lines {
    path: Path,
    reader: Decoded,
    position: RecordPosition,
    /// Whether the line in error was skipped, so that the next one can be read.
    recovers: bool,
}

impl Lines {
    /// Opens the file at a position that [`Lines::position`] returned, or at its beginning.
    pub(super) fn open_at(path: &Path, position: RecordPosition) -> Result<Self, DataError> {
        let reader = open_decoded(path, position, Compression::of_text)?;
        Ok(Self::of(path, reader, position))
    }

    /// The lines of a file that is open at its beginning.
    pub(super) fn of_open(path: &Path, reader: Decoded) -> Self {
        Self::of(path, reader, RecordPosition::default())
    }

    fn of(path: &Path, reader: Decoded, position: RecordPosition) -> Self {
        Self { path: path.clone(), reader, position, recovers: false }
    }

    /// Reads the next line without its end into `line`; `false` at the end of the file.
    fn next_line(&mut self, line: &mut Vec<u8>) -> Result<bool, DataError> {
        line.clear();
        self.recovers = false;
        let read = read_line(&mut self.reader, line, LONGEST_RECORD);
        let Some(num_bytes) = read.map_err(|source| self.failed(source))? else {
            return Err(self.pass_long_line(line.len()));
        };
        if num_bytes == 0 {
            return Ok(false);
        }
        if self.position.bytes == 0 {
            without_byte_order_mark(line);
            check_line_ends(&self.path, line)?;
        }
        self.advance(num_bytes);
        if line.last() == Some(&b'\n') {
            line.pop();
            if line.last() == Some(&b'\r') {
                line.pop();
            }
        }
        Ok(true)
    }

    fn advance(&mut self, num_bytes: usize) {
        self.position.records += 1;
        self.position.bytes += num_bytes as u64;
    }

    /// Skips the rest of a line, and returns its error.
    fn pass_long_line(&mut self, read: usize) -> DataError {
        let start = self.position;
        match self.reader.skip_until(b'\n') {
            Ok(left) => {
                self.advance(read + left);
                self.recovers = true;
                too_long(&self.path, start, LONGEST_RECORD)
            }
            Err(source) => self.failed(source),
        }
    }

    fn failed(&self, source: io::Error) -> DataError {
        read_error(&self.path, self.position, source)
    }
}

impl RecordReader for Lines {
    fn next_record(&mut self) -> Result<Option<Body>, DataError> {
        let mut line = Vec::new();
        Ok(self.next_line(&mut line)?.then_some(Body::Bytes(line)))
    }

    fn position(&self) -> RecordPosition {
        self.reader.with_frame(self.position)
    }

    fn recovers(&self) -> bool {
        self.recovers
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use super::super::testing::{error_of, file, gzip};
    use super::*;

    fn lines_from(path: &Path, position: RecordPosition) -> Vec<String> {
        let mut lines = Lines::open_at(path, position).unwrap();
        let (mut found, mut line) = (Vec::new(), Vec::new());
        while lines.next_line(&mut line).unwrap() {
            found.push(String::from_utf8(line.clone()).unwrap());
        }
        found
    }

    fn check(bytes: &[u8], expected: &[&str]) {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        std::fs::write(&file, bytes).unwrap();
        let path = Path::parse(file.to_str().unwrap()).unwrap();
        assert_eq!(lines_from(&path, RecordPosition::default()), expected);
        let mut reader = Lines::open_at(&path, RecordPosition::default()).unwrap();
        for rest in 1..=expected.len() {
            reader.next_line(&mut Vec::new()).unwrap();
            assert_eq!(lines_from(&path, reader.position), expected[rest..]);
        }
    }

    #[test]
    fn lines_end_in_any_style_and_reading_resumes_anywhere() {
        check(b"a\r\n\nlast", &["a", "", "last"]);
        check(b"", &[]);
        check("\u{feff}a\n\u{feff}b".as_bytes(), &["a", "\u{feff}b"]);
    }

    #[test]
    fn gzip_and_zstd_are_known_by_content() {
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all("ä\nb\n".as_bytes()).unwrap();
        check(&gzip.finish().unwrap(), &["ä", "b"]);
        // Consecutive frames are one text, like consecutive gzip members.
        let frame = |text: &str| zstd::encode_all(text.as_bytes(), 3).unwrap();
        check(&[frame("ä\nb"), frame("c\n")].concat(), &["ä", "bc"]);
    }

    #[test]
    fn a_cut_file_is_an_error_with_its_place() {
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        let text: String = (0..100_000).map(|i| format!("line {i}\n")).collect();
        gzip.write_all(text.as_bytes()).unwrap();
        let zstd = zstd::encode_all(text.as_bytes(), 1).unwrap();
        for bytes in [gzip.finish().unwrap(), zstd] {
            let (_dir, path) = file(&bytes[..bytes.len() / 2]);
            let lines = Lines::open_at(&path, RecordPosition::default());
            let error = error_of(lines.map(|lines| Box::new(lines) as Box<dyn RecordReader>));
            let (_, place) = error.split_once("file` beyond record ").expect(&error);
            let line: u64 = place.split_once(' ').unwrap().0.parse().unwrap();
            assert!(line > 1000 && place.contains("(byte "), "{error}");
        }
    }

    #[test]
    fn every_line_before_the_place_where_a_gzip_file_breaks_off_is_read() {
        let text: String = (0..2000).map(|i| format!("line {i}\n")).collect();
        let whole = gzip(text.as_bytes(), 6);
        for left in [whole.len() / 9, whole.len() / 2, whole.len() - 9] {
            let mut before = Vec::new();
            let cut = flate2::read::GzDecoder::new(&whole[..left]).read_to_end(&mut before);
            assert_eq!(cut.unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
            let expected = before.iter().filter(|byte| **byte == b'\n').count();
            let (_dir, path) = file(&whole[..left]);
            let error =
                error_of(Ok(Box::new(Lines::open_at(&path, RecordPosition::default()).unwrap())));
            assert!(
                expected > 0 && error.contains(&format!("beyond record {expected} (")),
                "{error}"
            );
        }
    }

    #[test]
    fn a_line_without_an_end_is_named_and_passed_in_bounded_memory() {
        let long = io::repeat(b'x').take(3 * LONGEST_RECORD as u64);
        let text = (&b"a\n"[..]).chain(long).chain(&b"\nb"[..]);
        let (_dir, path) = file(b"");
        let mut lines = Lines::of_open(&path, Decoded::new(text, None));
        let mut line = Vec::new();
        assert!(lines.next_line(&mut line).unwrap());
        let error = lines.next_line(&mut line).unwrap_err().to_string();
        assert!(
            error.contains("file, record 2 at byte 2: it does not end within 67108864"),
            "{error}"
        );
        assert!(line.capacity() <= 2 * LONGEST_RECORD + 2 && lines.recovers());
        assert!(lines.next_line(&mut line).unwrap());
        assert_eq!((&line[..], lines.position.records), (&b"b"[..], 3));
    }

    #[test]
    fn a_file_that_shrinks_is_an_error() {
        let (_dir, path) = file("a line of some length\n".repeat(100_000).as_bytes());
        let mut lines = Lines::open_at(&path, RecordPosition::default()).unwrap();
        lines.next_record().unwrap();
        path.set_size(500_000).unwrap();
        let error = error_of(Ok(Box::new(lines)));
        assert!(error.contains("the file shrank while it was read"), "{error}");
    }
}
