//! TFRecord files: each record between its length and its checksum.
//!
//! ```text
//! u64 length | u32 masked crc32c of the length | bytes | u32 masked crc32c of the bytes
//! ```
//! All little-endian. Source: TensorFlow `core/lib/io/record_writer.h`.

use std::io::{self, BufReader, Read};

use super::records::RecordPosition;
use crate::data::error::DataError;
use crate::storage::Path;

const BUFFER_SIZE: usize = 256 << 10;
/// Bytes before and behind a record's own.
const HEADER: usize = 12;
const FOOTER: usize = 4;

/// Appends a record to `out`, with its length and checksums.
pub(crate) fn frame(bytes: &[u8], out: &mut Vec<u8>) {
    let length = (bytes.len() as u64).to_le_bytes();
    out.extend(length);
    out.extend(masked_crc(&length).to_le_bytes());
    out.extend(bytes);
    out.extend(masked_crc(bytes).to_le_bytes());
}

/// Records may hold checksums themselves, so theirs are stored rotated and shifted.
fn masked_crc(bytes: &[u8]) -> u32 {
    crc32c::crc32c(bytes).rotate_right(15).wrapping_add(0xa282_ead8)
}

/// Reads a file record by record and checks every one.
pub(crate) struct TfRecords {
    path: Path,
    reader: Box<dyn Read + Send>,
    pub position: RecordPosition,
}

impl TfRecords {
    /// Opens the file at a position that [`TfRecords::position`] once gave, or at its beginning.
    pub(crate) fn open_at(path: &Path, position: RecordPosition) -> Result<Self, DataError> {
        let mut reader = BufReader::with_capacity(BUFFER_SIZE, path.open()?);
        let skipped = io::copy(&mut reader.by_ref().take(position.bytes), &mut io::sink());
        let mut records = Self { path: path.clone(), reader: Box::new(reader), position };
        if skipped.map_err(|error| records.damaged(error.to_string()))? < position.bytes {
            let reason = format!("`{path}` is shorter than it was");
            return Err(DataError::State { reason });
        }
        records.position = position;
        Ok(records)
    }

    /// The next record, into `record`; `false` at the end of the file.
    pub(crate) fn next_record(&mut self, record: &mut Vec<u8>) -> Result<bool, DataError> {
        let mut header = Vec::with_capacity(HEADER);
        match self.read(HEADER as u64, &mut header)? {
            0 => return Ok(false),
            HEADER => {}
            found => return Err(self.cut(found, "its length takes 12")),
        }
        let (length, crc) = header.split_at(8);
        if masked_crc(length).to_le_bytes() != *crc {
            return Err(self.damaged("the checksum of its length is wrong".to_string()));
        }
        let length = u64::from_le_bytes(length.try_into().expect("split at 8"));
        record.clear();
        let found = self.read(length, record)?;
        let mut footer = Vec::with_capacity(FOOTER);
        if found as u64 != length || self.read(FOOTER as u64, &mut footer)? != FOOTER {
            let expected =
                format!("its {length} bytes and checksum take {}", length.saturating_add(16));
            return Err(self.cut(HEADER + found + footer.len(), &expected));
        }
        if masked_crc(record).to_le_bytes() != *footer {
            return Err(self.damaged(format!("the checksum of its {length} bytes is wrong")));
        }
        self.position.records += 1;
        self.position.bytes += (HEADER + FOOTER) as u64 + length;
        Ok(true)
    }

    /// Up to `length` bytes, fewer at the end of the file. Memory grows with what is there, not
    /// with what a damaged length says.
    fn read(&mut self, length: u64, into: &mut Vec<u8>) -> Result<usize, DataError> {
        let read = self.reader.by_ref().take(length).read_to_end(into);
        read.map_err(|error| self.damaged(error.to_string()))
    }

    fn cut(&self, found: usize, expected: &str) -> DataError {
        self.damaged(format!("the file ends {found} bytes into it, {expected}"))
    }

    /// The error of the record after the current position.
    fn damaged(&self, reason: String) -> DataError {
        DataError::TfRecord {
            file: self.path.to_string(),
            number: self.position.records + 1,
            offset: self.position.bytes,
            reason,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(bytes: &[u8]) -> (tempfile::TempDir, Path) {
        let dir = tempfile::tempdir().unwrap();
        let path = Path::try_from(dir.path()).unwrap().join("file");
        path.write_atomic(bytes).unwrap();
        (dir, path)
    }

    #[test]
    fn the_frame_is_tensorflows() {
        // `tf.io.TFRecordWriter` of TensorFlow 2.21 wrote these for b"abc".
        let expected = "0300000000000000b099490e6162636e57f121";
        let mut out = Vec::new();
        frame(b"abc", &mut out);
        let hex: String = out.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex, expected);
    }

    #[test]
    fn reading_resumes_at_any_record() {
        let texts: [&[u8]; 4] = [b"one", b"", b"three", &[7; 1000]];
        let mut bytes = Vec::new();
        texts.iter().for_each(|text| frame(text, &mut bytes));
        let (_dir, path) = file(&bytes);
        let mut whole = TfRecords::open_at(&path, RecordPosition::default()).unwrap();
        let mut record = Vec::new();
        for (i, text) in texts.iter().enumerate() {
            let mut resumed = TfRecords::open_at(&path, whole.position).unwrap();
            assert!(whole.next_record(&mut record).unwrap());
            assert_eq!(record, *text, "record {i}");
            assert!(resumed.next_record(&mut record).unwrap());
            assert_eq!((&record[..], resumed.position), (*text, whole.position), "record {i}");
        }
        assert!(!whole.next_record(&mut record).unwrap());
    }

    #[test]
    fn a_huge_length_takes_no_memory() {
        let length = u64::MAX.to_le_bytes();
        let bytes = [&length[..], &masked_crc(&length).to_le_bytes(), b"rest"].concat();
        let (_dir, path) = file(&bytes);
        let mut records = TfRecords::open_at(&path, RecordPosition::default()).unwrap();
        let error = records.next_record(&mut Vec::new()).unwrap_err().to_string();
        assert!(error.contains("the file ends 16 bytes into it"), "{error}");
    }
}
