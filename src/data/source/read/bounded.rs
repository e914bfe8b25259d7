//! Lines in bounded memory: a file without line ends is a mistake, not one long record.

use std::io::{self, BufRead, Read};

use super::Path;
use super::position::RecordPosition;
use crate::error::{DataError, file_error};

/// Maximum size of a record whose end is found only by reading it.
pub(super) const LONGEST_RECORD: usize = 64 << 20;

/// Appends the bytes up to a line's end, including the end, and returns their number; `None` if
/// `into` would become longer than `longest`, in which case it has one byte more.
pub(super) fn read_line(
    reader: &mut impl BufRead,
    into: &mut Vec<u8>,
    longest: usize,
) -> io::Result<Option<usize>> {
    let room = (longest + 1).saturating_sub(into.len());
    let found = reader.take(room as u64).read_until(b'\n', into)?;
    Ok((found < room || into.last() == Some(&b'\n')).then_some(found))
}

/// Removes the mark with which some programs begin files in UTF-8.
pub(super) fn without_byte_order_mark(first_line: &mut Vec<u8>) {
    const MARK: &[u8] = b"\xef\xbb\xbf";
    if first_line.starts_with(MARK) {
        first_line.drain(..MARK.len());
    }
}

/// Rejects a file that is one line for us, because its lines end as on Macs before 2001.
pub(super) fn check_line_ends(path: &Path, first_line: &[u8]) -> Result<(), DataError> {
    let returns = first_line.iter().filter(|byte| **byte == b'\r').count();
    if returns < 2 || first_line.ends_with(b"\n") {
        return Ok(());
    }
    Err(file_error(
        path,
        "its lines end with a carriage return alone, expected line feeds: convert it, for example with \
         `tr '\\r' '\\n' <OLD >NEW`",
    ))
}

/// The error of a record that is too long.
pub(super) fn too_long(path: &Path, start: RecordPosition, longest: usize) -> DataError {
    let place = format!("{path}, record {} at byte {}", start.records + 1, start.bytes);
    let reason = format!(
        "it does not end within {longest} bytes, the most that a record may have; does the \
         file have the format that its source reads?"
    );
    DataError::Record { place, reason }
}

#[cfg(test)]
mod tests {
    use std::io::BufReader;

    use super::*;

    /// The result of reading a text in buffers of a few bytes.
    fn read(text: &str, before: &str, longest: usize) -> (Option<usize>, String) {
        let mut into = before.as_bytes().to_vec();
        let mut reader = BufReader::with_capacity(3, text.as_bytes());
        let found = read_line(&mut reader, &mut into, longest).unwrap();
        (found, String::from_utf8(into).unwrap())
    }

    #[test]
    fn a_file_whose_lines_end_with_carriage_returns_is_named() {
        let path = Path::parse("old.txt").unwrap();
        for text in ["a\r\n", "a\rb\n", "a\r", "a\rb", ""] {
            check_line_ends(&path, text.as_bytes()).unwrap();
        }
        let error = check_line_ends(&path, b"a\rb\r").unwrap_err().to_string();
        assert!(error.contains("carriage return alone, expected line feeds"), "{error}");
    }

    #[test]
    fn a_line_is_read_up_to_its_end_or_the_longest_length() {
        assert_eq!(read("abcde\nf", "", 5), (Some(6), "abcde\n".to_string()));
        assert_eq!(read("abcde", "", 5), (Some(5), "abcde".to_string()));
        assert_eq!(read("abcdef\n", "", 5), (None, "abcdef".to_string()));
        assert_eq!(read("cde\nf", "ab", 5), (Some(4), "abcde\n".to_string()));
        assert_eq!(read("cdef\n", "ab", 5), (None, "abcdef".to_string()));
        assert_eq!(read("", "", 5), (Some(0), String::new()));
    }
}
