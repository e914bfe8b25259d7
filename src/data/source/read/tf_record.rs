//! TFRecord files: each record between its length and its checksum.
//!
//! ```text
//! u64 length | u32 masked crc32c of the length | bytes | u32 masked crc32c of the bytes
//! ```
//! All little-endian. Source: TensorFlow `core/lib/io/record_writer.h`.

use std::io::{self, Read};

use super::decode::{Compression, Decoded, open_decoded};
use super::error::read_error;
use super::position::RecordPosition;
use super::record::{Body, RecordReader};
use crate::error::DataError;
use gimlet_storage::Path;

/// Sizes in bytes of a record's header and footer.
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

/// Masks a checksum: records may contain checksums themselves, so their checksums are stored
/// rotated and shifted.
fn masked_crc(bytes: &[u8]) -> u32 {
    crc32c::crc32c(bytes).rotate_right(15).wrapping_add(0xa282_ead8)
}

/// The compression of a file. A plain file begins with a length and its checksum, which occurs in a
/// compressed file with a probability of 1 in 2^32.
pub(super) fn compression_of(first: &[u8]) -> Compression {
    let is_zlib = |first: &[u8]| {
        first.len() > 1
            && first[0] & 0x0f == 8
            && (u16::from(first[0]) << 8 | u16::from(first[1])).is_multiple_of(31)
    };
    let is_header = first.len() == HEADER && masked_crc(&first[..8]).to_le_bytes() == first[8..];
    match Compression::of_text(first) {
        _ if is_header => Compression::Plain,
        Compression::Plain if is_zlib(first) => Compression::Zlib,
        compression => compression,
    }
}

/// Reads a file record by record and verifies every checksum.
pub(super) struct TfRecords {
    path: Path,
    reader: Decoded,
    position: RecordPosition,
    /// Whether the record in error was skipped, so that the next one can be read.
    recovers: bool,
    /// Whether the file ends within the record in error.
    breaks_off: bool,
}

impl TfRecords {
    /// Opens the file at a position that it returned, or at its beginning.
    pub(super) fn open_at(path: &Path, position: RecordPosition) -> Result<Self, DataError> {
        let reader = open_decoded(path, position, compression_of)?;
        Ok(Self { path: path.clone(), reader, position, recovers: false, breaks_off: false })
    }

    /// The length of the next record; `None` at the end of the file.
    fn next_length(&mut self) -> Result<Option<u64>, DataError> {
        self.recovers = false;
        let mut header = Vec::with_capacity(HEADER);
        match self.read(HEADER as u64, &mut header)? {
            0 => return Ok(None),
            HEADER => {}
            found => return Err(self.cut(found, "its length takes 12")),
        }
        let (length, crc) = header.split_at(8);
        if masked_crc(length).to_le_bytes() != *crc {
            return Err(self.damaged("the checksum of its length is wrong".to_string()));
        }
        Ok(Some(u64::from_le_bytes(length.try_into().expect("split at 8"))))
    }

    /// Reads the next record into `record`; `false` at the end of the file.
    fn read_record(&mut self, record: &mut Vec<u8>) -> Result<bool, DataError> {
        let Some(length) = self.next_length()? else { return Ok(false) };
        record.clear();
        let found = self.read(length, record)?;
        let mut footer = Vec::with_capacity(FOOTER);
        if found as u64 != length || self.read(FOOTER as u64, &mut footer)? != FOOTER {
            let expected =
                format!("its {length} bytes and checksum take {}", length.saturating_add(16));
            return Err(self.cut(HEADER + found + footer.len(), &expected));
        }
        if masked_crc(record).to_le_bytes() != *footer {
            let damaged = self.damaged(format!("the checksum of its {length} bytes is wrong"));
            self.advance(length);
            self.recovers = true;
            return Err(damaged);
        }
        self.advance(length);
        Ok(true)
    }

    fn advance(&mut self, length: u64) {
        self.position.records += 1;
        self.position.bytes += (HEADER + FOOTER) as u64 + length;
    }

    /// Reads up to `length` bytes, fewer at the end of the file. Memory grows with the bytes that
    /// exist, not with a damaged length.
    fn read(&mut self, length: u64, into: &mut Vec<u8>) -> Result<usize, DataError> {
        let read = self.reader.by_ref().take(length).read_to_end(into);
        read.map_err(|error| self.failed(error))
    }

    /// Converts an error of reading: failures to read are not damage, and say nothing about the
    /// record.
    fn failed(&mut self, error: io::Error) -> DataError {
        match error.kind() {
            io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof => {
                self.damaged(error.to_string())
            }
            _ => read_error(&self.path, self.position, error),
        }
    }

    fn cut(&mut self, found: usize, expected: &str) -> DataError {
        self.breaks_off = true;
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

impl RecordReader for TfRecords {
    fn next_record(&mut self) -> Result<Option<Body>, DataError> {
        let mut record = Vec::new();
        Ok(self.read_record(&mut record)?.then_some(Body::Bytes(record)))
    }

    fn position(&self) -> RecordPosition {
        self.reader.with_frame(self.position)
    }

    fn recovers(&self) -> bool {
        self.recovers
    }

    fn breaks_off(&self) -> bool {
        self.breaks_off
    }

    /// Only the checksums of lengths are verified.
    fn skip(&mut self, count: u64) -> Result<(), DataError> {
        for _ in 0..count {
            let Some(length) = self.next_length()? else { break };
            let beyond = length.saturating_add(FOOTER as u64);
            let passed = io::copy(&mut self.reader.by_ref().take(beyond), &mut io::sink());
            let passed = passed.map_err(|error| self.failed(error))?;
            if passed < beyond {
                let expected = format!("it takes {}", beyond.saturating_add(HEADER as u64));
                return Err(self.cut(HEADER + passed as usize, &expected));
            }
            self.advance(length);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::super::testing::{error_of, file, rest, text};
    use super::*;

    const TEXTS: [&str; 4] = ["one", "", "three", "and a longer one"];

    fn framed() -> Vec<u8> {
        let mut bytes = Vec::new();
        TEXTS.iter().for_each(|text| frame(text.as_bytes(), &mut bytes));
        bytes
    }

    fn open(path: &Path) -> TfRecords {
        TfRecords::open_at(path, RecordPosition::default()).unwrap()
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
    fn reading_resumes_at_any_record_however_it_is_compressed() {
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(&framed()).unwrap();
        let mut zlib = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::best());
        zlib.write_all(&framed()).unwrap();
        let zstd = zstd::encode_all(&framed()[..], 3).unwrap();
        for bytes in [framed(), gzip.finish().unwrap(), zlib.finish().unwrap(), zstd] {
            let (_dir, path) = file(&bytes);
            let mut whole = open(&path);
            for left in 0..=TEXTS.len() {
                let mut resumed = TfRecords::open_at(&path, whole.position()).unwrap();
                assert_eq!(rest(&mut resumed, text), TEXTS[left..]);
                let mut skipped = open(&path);
                skipped.skip(left as u64).unwrap();
                assert_eq!(skipped.position(), whole.position());
                whole.next_record().unwrap();
            }
        }
    }

    #[test]
    fn a_cut_zlib_stream_is_an_error() {
        let mut zlib = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::best());
        zlib.write_all(&framed()).unwrap();
        let bytes = zlib.finish().unwrap();
        // Only the checksum after the last record is missing.
        let (_dir, path) = file(&bytes[..bytes.len() - 4]);
        let error = error_of(Ok(Box::new(open(&path))));
        assert!(error.contains("the compressed stream breaks off"), "{error}");
    }

    #[test]
    fn what_hinders_reading_is_no_damage() {
        let bytes = framed();
        let (_dir, path) = file(&bytes.repeat(40_000));
        let mut records = open(&path);
        records.next_record().unwrap();
        path.set_size(bytes.len() as u64 * 20_000).unwrap();
        let error = std::iter::repeat_with(|| records.next_record()).find_map(Result::err).unwrap();
        assert!(matches!(error, DataError::Read { .. }) && !error.is_bad_record(), "{error}");
        assert!(error.to_string().contains("the file shrank while it was read"), "{error}");
    }

    #[test]
    fn what_follows_a_zlib_stream_is_an_error() {
        let mut zlib = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::best());
        zlib.write_all(&framed()).unwrap();
        let (_dir, path) = file(&zlib.finish().unwrap().repeat(2));
        let error = error_of(Ok(Box::new(open(&path))));
        assert!(error.contains("record 5 at byte"), "{error}");
        assert!(error.contains("other bytes follow the end of the zlib stream"), "{error}");
    }

    #[test]
    fn a_wrong_checksum_is_named_and_the_next_record_can_be_read() {
        let mut bytes = framed();
        bytes[12] ^= 1;
        let (_dir, path) = file(&bytes);
        let mut records = open(&path);
        let error = records.next_record().err().expect("the first record is damaged").to_string();
        assert!(error.contains("record 1 at byte 0: the checksum of its 3 bytes"), "{error}");
        assert!(records.recovers());
        assert_eq!(rest(&mut records, text), TEXTS[1..]);
    }

    #[test]
    fn a_huge_length_takes_no_memory() {
        let length = u64::MAX.to_le_bytes();
        let bytes = [&length[..], &masked_crc(&length).to_le_bytes(), b"rest"].concat();
        let (_dir, path) = file(&bytes);
        let error = error_of(Ok(Box::new(open(&path))));
        assert!(error.contains("the file ends 16 bytes into it"), "{error}");
    }
}
