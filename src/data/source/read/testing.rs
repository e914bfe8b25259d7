//! What tests of readers share.

#![cfg(test)]

use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;

use super::*;

/// A file of that content, and the folder that holds it.
pub fn file(bytes: &[u8]) -> (tempfile::TempDir, Path) {
    let dir = tempfile::tempdir().unwrap();
    let path = Path::try_from(dir.path()).unwrap().join("file");
    path.write_atomic(bytes).unwrap();
    (dir, path)
}

/// What `flate2` compresses them to.
pub fn gzip(bytes: &[u8], level: u32) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::new(level));
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// What `show` says of every record that is left.
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

/// The first error, wherever it comes.
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
