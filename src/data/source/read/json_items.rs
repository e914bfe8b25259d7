//! JSON objects: one on each line, or the items of an array that is the whole file or the value of
//! a key.

use std::io::BufRead;

use serde::de::IgnoredAny;

use super::bounded::{LONGEST_RECORD, too_long};
use super::decode::{Compression, Decoded, open_decoded};
use super::error::read_error;
use super::lines::Lines;
use super::position::RecordPosition;
use super::record::{Body, RecordReader};
use crate::error::{DataError, file_error};
use gimlet_storage::Path;

/// The value of a position's `within` for "in an array", which positions of lines never have.
const IN_ARRAY: u64 = 1;

/// Opens a file of JSON objects, either on lines or in an array.
pub(super) fn open_json(
    path: &Path,
    field: Option<&str>,
    position: RecordPosition,
) -> Result<Box<dyn RecordReader>, DataError> {
    let kind = if field.is_some() { Array::OfKey } else { Array::Whole };
    if position.within == IN_ARRAY {
        return Ok(Box::new(Items::resume_at(path, kind, position)?));
    }
    if position != RecordPosition::default() {
        return Ok(Box::new(Lines::open_at(path, position)?));
    }
    let start = RecordPosition { within: IN_ARRAY, ..position };
    let mut items = Items::resume_at(path, kind, start)?;
    match field {
        Some(field) => items.enter_value_of(field)?,
        None if items.next_byte()? == Some(b'[') => items.take(),
        // The skipped white space has been taken, and may include lines, which are counted.
        None if items.position.bytes > 0 => {
            return Ok(Box::new(Lines::open_at(path, position)?));
        }
        None => return Ok(Box::new(Lines::of_open(path, items.reader))),
    }
    Ok(Box::new(items))
}

/// The role of the array in its file.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Array {
    /// The whole file, so that nothing follows.
    Whole,
    /// The value of a key, which other keys may follow.
    OfKey,
}

/// The items of an array.
struct Items {
    path: Path,
    kind: Array,
    reader: Decoded,
    /// Whether the end of the array was read, and the rest of the file was checked.
    ended: bool,
    position: RecordPosition,
    /// Whether the file ends within the item in error.
    breaks_off: bool,
    /// Maximum number of bytes of an item.
    longest: usize,
}

impl Items {
    fn resume_at(path: &Path, kind: Array, position: RecordPosition) -> Result<Self, DataError> {
        let reader = open_decoded(path, position, Compression::of_text)?;
        Ok(Self {
            path: path.clone(),
            kind,
            reader,
            ended: false,
            position,
            breaks_off: false,
            longest: LONGEST_RECORD,
        })
    }

    /// The next byte, without taking it; `None` at the end of the file.
    fn peek(&mut self) -> Result<Option<u8>, DataError> {
        let buffer = self.reader.fill_buf();
        let buffer = buffer.map_err(|source| read_error(&self.path, self.position, source))?;
        Ok(buffer.first().copied())
    }

    fn take(&mut self) {
        self.reader.consume(1);
        self.position.bytes += 1;
    }

    /// The next byte that is not white space, without taking it.
    fn next_byte(&mut self) -> Result<Option<u8>, DataError> {
        while let Some(byte) = self.peek()? {
            if !byte.is_ascii_whitespace() {
                return Ok(Some(byte));
            }
            self.take();
        }
        Ok(None)
    }

    fn expect(&mut self, byte: u8, what: &str) -> Result<(), DataError> {
        match self.next_byte()? {
            Some(found) if found == byte => {
                self.take();
                Ok(())
            }
            found => Err(self.unexpected(found, what)),
        }
    }

    /// Moves to the first item of the array under a key of the file's object.
    fn enter_value_of(&mut self, field: &str) -> Result<(), DataError> {
        self.expect(b'{', "an object")?;
        loop {
            if self.next_byte()? == Some(b'}') {
                return Err(file_error(&self.path, format!("its object has no key \"{field}\"")));
            }
            let mut key = Vec::new();
            self.value(Some(&mut key))?;
            self.expect(b':', "`:` behind a key")?;
            if serde_json::from_slice::<String>(&key).is_ok_and(|key| key == field) {
                return self.expect(b'[', &format!("an array under \"{field}\""));
            }
            self.next_byte()?;
            self.value(None)?;
            if self.next_byte()? == Some(b',') {
                self.take();
            }
        }
    }

    /// Appends the value that begins here to `into`, or skips the value: up to its last bracket or
    /// quote, or to the end of a number or word. Parsing decides later whether the value is JSON.
    fn value(&mut self, mut into: Option<&mut Vec<u8>>) -> Result<(), DataError> {
        let start = self.position;
        let (mut depth, mut in_text, mut escaped) = (0_u64, false, false);
        loop {
            let Some(byte) = self.peek()? else {
                // A bracket or quote that is missing earlier does not leave a valid beginning of
                // JSON.
                let begun =
                    into.as_deref().map(|begun| serde_json::from_slice::<IgnoredAny>(begun));
                self.breaks_off = begun.is_some_and(|begun| begun.is_err_and(|why| why.is_eof()));
                return Err(self.unexpected(None, "its end"));
            };
            let is_end = matches!(byte, b',' | b':' | b'}' | b']') || byte.is_ascii_whitespace();
            if depth == 0 && !in_text && is_end {
                return Ok(());
            }
            self.take();
            if let Some(into) = &mut into {
                if into.len() == self.longest {
                    return Err(too_long(&self.path, start, self.longest));
                }
                into.push(byte);
            }
            match byte {
                _ if escaped => escaped = false,
                b'\\' if in_text => escaped = true,
                b'"' => in_text = !in_text,
                _ if in_text => {}
                b'{' | b'[' => depth += 1,
                b'}' | b']' => depth -= 1,
                _ => {}
            }
            if depth == 0 && !in_text && matches!(byte, b'"' | b'}' | b']') {
                return Ok(());
            }
        }
    }

    /// Checks the rest of the file after the array; the position stays at the array's end.
    fn end(&mut self) -> Result<(), DataError> {
        if self.kind == Array::OfKey {
            return Ok(());
        }
        let end = self.position;
        self.take();
        if let Some(found) = self.next_byte()? {
            let what = "the end of the file behind its array";
            return Err(self.unexpected(Some(found), what));
        }
        (self.position, self.ended) = (end, true);
        Ok(())
    }

    fn unexpected(&self, found: Option<u8>, expected: &str) -> DataError {
        let RecordPosition { records, bytes, .. } = self.position;
        let found = match found {
            Some(byte) => format!("found `{}`", char::from(byte).escape_default()),
            None => "the file ends".to_string(),
        };
        let place = format!("{}, record {} at byte {bytes}", self.path, records + 1);
        DataError::Record { place, reason: format!("{found}, expected {expected}") }
    }
}

impl RecordReader for Items {
    fn next_record(&mut self) -> Result<Option<Body>, DataError> {
        if self.ended {
            return Ok(None);
        }
        let mut next = self.next_byte()?;
        if next == Some(b',') && self.position.records > 0 {
            self.take();
            next = self.next_byte()?;
        }
        match next {
            Some(b']') => self.end().map(|()| None),
            None => {
                self.breaks_off = true;
                Err(self.unexpected(None, "`]`"))
            }
            Some(byte @ (b',' | b':' | b'}')) => Err(self.unexpected(Some(byte), "an object")),
            Some(_) => {
                let mut value = Vec::new();
                self.value(Some(&mut value))?;
                self.position.records += 1;
                Ok(Some(Body::Item(value)))
            }
        }
    }

    fn position(&self) -> RecordPosition {
        self.reader.with_frame(self.position)
    }

    fn breaks_off(&self) -> bool {
        self.breaks_off
    }
}

#[cfg(test)]
mod tests {
    use std::io::{self, Read};

    use super::super::testing::{error_of, file, gzip, rest, text};
    use super::*;

    #[track_caller]
    fn check(json: &str, field: Option<&str>, expected: &[&str]) {
        // The bytes of a stored block come one by one at first.
        for bytes in [json.as_bytes().to_vec(), gzip(json.as_bytes(), 0)] {
            let (_dir, path) = file(&bytes);
            let mut whole = open_json(&path, field, RecordPosition::default()).unwrap();
            for left in 0..=expected.len() {
                let mut resumed = open_json(&path, field, whole.position()).unwrap();
                assert_eq!(rest(&mut *resumed, text), expected[left..], "{left} of {json}");
                whole.next_record().unwrap();
            }
        }
    }

    #[test]
    fn lines_arrays_and_the_array_of_a_key_are_read_and_resumed() {
        check("{\"a\": 1}\n{\"a\": 2}\n", None, &["{\"a\": 1}", "{\"a\": 2}"]);
        let array = " [ {\"a\": \"]},\\\"\"} ,\n{\"b\": [1, {}]}, 3 ]\n";
        let items = ["{\"a\": \"]},\\\"\"}", "{\"b\": [1, {}]}", "3"];
        check(array, None, &items);
        let object = format!("{{\"version\": \"1,0\", \"x\": [[]], \"data\":{array}, \"y\": 0}}");
        check(&object, Some("data"), &items);
        check("[]", None, &[]);
        let indented = " ".repeat(100) + array;
        check(&indented, None, &items);
        check("\n \n{\"a\": 1}\n", None, &["", " ", "{\"a\": 1}"]);
    }

    #[test]
    fn an_item_without_an_end_is_named_in_bounded_memory() {
        let (_dir, path) = file(b"[1, [2");
        let start = RecordPosition { within: IN_ARRAY, ..RecordPosition::default() };
        let mut items = Items::resume_at(&path, Array::Whole, start).unwrap();
        items.longest = 1000;
        items.expect(b'[', "an array").unwrap();
        assert_eq!(items.next_record().unwrap().map(text), Some("1".to_string()));
        items.reader = Decoded::new((&b", "[..]).chain(io::repeat(b'[')), None);
        let error = items.next_record().err().expect("it has no end").to_string();
        assert!(error.contains("record 2 at byte 4: it does not end within 1000 bytes"), "{error}");
    }

    #[test]
    fn what_is_no_array_is_named() {
        for (json, field, expected) in [
            ("[{\"a\": 1}, {\"a\"", None, "record 2 at byte 15: the file ends, expected its end"),
            ("[{\"a\": 1}", None, "record 2 at byte 9: the file ends, expected `]`"),
            ("[, 1]", None, "record 1 at byte 1: found `,`, expected an object"),
            ("{\"a\": 1}", Some("data"), "its object has no key \"data\""),
            ("{\"data\": 1}", Some("data"), "found `1`, expected an array under \"data\""),
            (
                "[1] \n[2]",
                None,
                "at byte 5: found `[`, expected the end of the file behind its array",
            ),
            ("[],", None, "record 1 at byte 2: found `,`, expected the end of the file"),
        ] {
            let (_dir, path) = file(json.as_bytes());
            let error = error_of(open_json(&path, field, RecordPosition::default()));
            assert!(error.contains(expected), "{error}");
        }
    }
}
