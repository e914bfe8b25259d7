//! The lines of one file, plain or gzip by its first bytes.

use std::io::{self, BufRead, BufReader, Read};

use flate2::bufread::MultiGzDecoder;

use super::records::RecordPosition;
use crate::data::error::DataError;
use crate::storage::Path;

const BUFFER_SIZE: usize = 256 << 10;
const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];

/// Reads a file line by line and knows where it is.
pub(crate) struct Lines {
    path: Path,
    reader: Box<dyn BufRead + Send>,
    pub position: RecordPosition,
}

impl Lines {
    /// Opens the file at a position that [`Lines::position`] once gave, or at its beginning.
    pub(crate) fn open_at(path: &Path, position: RecordPosition) -> Result<Self, DataError> {
        let mut file = BufReader::with_capacity(BUFFER_SIZE, path.open()?);
        let broken = |source| read_error(path, position.records, source);
        let is_gzip = file.fill_buf().map_err(broken)?.starts_with(&GZIP_MAGIC);
        let mut reader: Box<dyn BufRead + Send> = match is_gzip {
            true => Box::new(BufReader::with_capacity(BUFFER_SIZE, MultiGzDecoder::new(file))),
            false => Box::new(file),
        };
        let skipped = io::copy(&mut reader.by_ref().take(position.bytes), &mut io::sink());
        if skipped.map_err(broken)? < position.bytes {
            let reason = format!("`{path}` is shorter than it was");
            return Err(DataError::State { reason });
        }
        Ok(Self { path: path.clone(), reader, position })
    }

    /// The next line without its end, into `line`; `false` at the end of the file.
    pub(crate) fn next_line(&mut self, line: &mut Vec<u8>) -> Result<bool, DataError> {
        line.clear();
        let read = self.reader.read_until(b'\n', line);
        let num_bytes =
            read.map_err(|source| read_error(&self.path, self.position.records, source))?;
        if num_bytes == 0 {
            return Ok(false);
        }
        self.position.records += 1;
        self.position.bytes += num_bytes as u64;
        if line.last() == Some(&b'\n') {
            line.pop();
            if line.last() == Some(&b'\r') {
                line.pop();
            }
        }
        Ok(true)
    }
}

fn read_error(path: &Path, line: u64, source: io::Error) -> DataError {
    DataError::Read { file: path.to_string(), line, source }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

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
    }

    #[test]
    fn gzip_is_known_by_content() {
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all("ä\nb\n".as_bytes()).unwrap();
        check(&gzip.finish().unwrap(), &["ä", "b"]);
    }

    #[test]
    fn a_cut_gzip_file_is_an_error_with_its_place() {
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all("line\n".repeat(1000).as_bytes()).unwrap();
        let bytes = gzip.finish().unwrap();
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file.gz");
        std::fs::write(&file, &bytes[..bytes.len() / 2]).unwrap();
        let path = Path::parse(file.to_str().unwrap()).unwrap();
        let mut lines = Lines::open_at(&path, RecordPosition::default()).unwrap();
        let mut line = Vec::new();
        let error = loop {
            match lines.next_line(&mut line) {
                Ok(more) => assert!(more, "the cut went unnoticed"),
                Err(error) => break error.to_string(),
            }
        };
        assert!(error.contains("file.gz` beyond line"), "{error}");
    }
}
