//! Functions that the tests of readers share.

#![cfg(test)]

use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;

use super::*;

/// A file with these bytes, and the folder that contains it.
pub fn file(bytes: &[u8]) -> (tempfile::TempDir, Path) {
    let dir = tempfile::tempdir().unwrap();
    let path = Path::try_from(dir.path()).unwrap().join("file");
    path.write_atomic(bytes).unwrap();
    (dir, path)
}

/// The bytes, compressed by `flate2`.
pub fn gzip(bytes: &[u8], level: u32) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::new(level));
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// The texts that `show` returns for the remaining records.
pub fn rest(reader: &mut dyn RecordReader, show: impl Fn(Body) -> String) -> Vec<String> {
    let mut found = Vec::new();
    while let Some(body) = reader.next_record().unwrap() {
        found.push(show(body));
    }
    found
}

/// The bytes of a record as text.
pub fn text(body: Body) -> String {
    match body {
        Body::Bytes(bytes) | Body::Item(bytes) | Body::Fields { bytes, .. } => {
            String::from_utf8(bytes).unwrap()
        }
        _ => panic!("the record has no bytes"),
    }
}

/// The first error, of opening or of any record.
pub fn error_of(opened: Result<Box<dyn RecordReader>, DataError>) -> String {
    let mut reader = match opened {
        Ok(reader) => reader,
        Err(error) => return error.to_string(),
    };
    loop {
        match reader.next_record() {
            Ok(found) => assert!(found.is_some(), "the file ends without an error"),
            Err(error) => return error.to_string(),
        }
    }
}
