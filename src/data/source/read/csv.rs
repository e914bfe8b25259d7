//! Records of delimited fields, as RFC 4180 describes them.
//!
//! This reader only finds the ends of records; [`fields`] splits a record.

use std::sync::Arc;

use super::super::file::CsvOptions;
use super::bounded::{
    LONGEST_RECORD, check_line_ends, read_line, too_long, without_byte_order_mark,
};
use super::decode::{Compression, Decoded, open_decoded};
use super::error::read_error;
use super::position::RecordPosition;
use super::record::{Body, RecordReader};
use crate::error::{DataError, file_error};
use crate::value::Key;
use gimlet_gin::did_you_mean;
use gimlet_storage::Path;

/// The fields of a record, or a description of the mistake in it.
pub(crate) fn fields(record: &[u8], options: &CsvOptions) -> Result<Vec<Vec<u8>>, String> {
    let mut fields = Vec::new();
    let mut rest = record;
    loop {
        let (field, after) = field(rest, options)?;
        fields.push(field);
        match after {
            Some(after) => rest = after,
            None => return Ok(fields),
        }
    }
}

/// The first field, and the text after its delimiter.
fn field<'a>(text: &'a [u8], options: &CsvOptions) -> Result<(Vec<u8>, Option<&'a [u8]>), String> {
    let is_quoted = options.quote.is_some() && text.first().copied() == options.quote;
    let Some(quote) = options.quote.filter(|_| is_quoted) else {
        let end = text.iter().position(|byte| *byte == options.delimiter);
        let (field, after) = end.map_or((text, None), |end| (&text[..end], Some(&text[end + 1..])));
        return Ok((field.to_vec(), after));
    };
    let (mut field, mut rest) = (Vec::new(), &text[1..]);
    loop {
        let Some(end) = rest.iter().position(|byte| *byte == quote) else {
            return Err("a quote is not closed".to_string());
        };
        field.extend_from_slice(&rest[..end]);
        rest = &rest[end + 1..];
        match rest.first() {
            None => return Ok((field, None)),
            Some(next) if *next == quote => {
                field.push(quote);
                rest = &rest[1..];
            }
            Some(next) if *next == options.delimiter => return Ok((field, Some(&rest[1..]))),
            Some(next) => {
                let next = char::from(*next);
                return Err(format!("a closing quote is followed by '{next}', not by a delimiter"));
            }
        }
    }
}

/// The state of a scan for the end of a record.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Scan {
    /// Before a field.
    Start,
    /// In a field without quotes, or after one with quotes.
    Plain,
    /// Within quotes.
    Quoted,
    /// After a quote within quotes, which closes them unless another quote follows.
    Closed,
}

impl Scan {
    /// Continues the scan over more bytes of the record.
    fn over(self, bytes: &[u8], options: &CsvOptions) -> Self {
        let Some(quote) = options.quote else { return Self::Plain };
        if self != Self::Quoted && !bytes.contains(&quote) {
            return Self::Plain;
        }
        bytes.iter().fold(self, |scan, byte| match (scan, *byte) {
            (Self::Start | Self::Closed, byte) if byte == quote => Self::Quoted,
            (Self::Quoted, byte) if byte == quote => Self::Closed,
            (Self::Quoted, _) => Self::Quoted,
            (_, byte) if byte == options.delimiter => Self::Start,
            _ => Self::Plain,
        })
    }
}

/// Reads a file record by record.
pub(super) struct CsvRecords {
    path: Path,
    options: Arc<CsvOptions>,
    reader: Decoded,
    position: RecordPosition,
    columns: Arc<[Key]>,
    /// Whether the file ends within the record in error.
    breaks_off: bool,
}

impl CsvRecords {
    /// Opens the file at a position that a reader returned, or at its beginning.
    pub(super) fn open_at(
        path: &Path,
        options: &Arc<CsvOptions>,
        position: RecordPosition,
    ) -> Result<Self, DataError> {
        let start = RecordPosition::default();
        let mut records = Self {
            path: path.clone(),
            options: options.clone(),
            reader: open_decoded(path, start, Compression::of_text)?,
            position: start,
            columns: [].into(),
            breaks_off: false,
        };
        records.read_head()?;
        if position != start && position != records.position {
            records.reader = open_decoded(path, position, Compression::of_text)?;
            records.position = position;
        }
        Ok(records)
    }

    /// Skips the lines before the examples, and reads the names of the columns.
    fn read_head(&mut self) -> Result<(), DataError> {
        for _ in 0..self.options.skip {
            self.read_record(&mut Vec::new())?;
        }
        if let Some(names) = &self.options.column_names {
            self.columns = names.iter().map(|name| Key::from(&name[..])).collect();
            return self.check_columns("`column_names` has");
        }
        let mut head = Vec::new();
        self.read_record(&mut head)?;
        let names = fields(&head, &self.options).map_err(|why| file_error(&self.path, why))?;
        let name = |name| String::from_utf8(name).map(Key::from);
        let names: Result<Vec<Key>, _> = names.into_iter().map(name).collect();
        let not_text = |_| file_error(&self.path, "the names in its first record are not UTF-8");
        self.columns = names.map_err(not_text)?.into();
        self.check_columns("its first record names")
    }

    /// Rejects two columns of one name, and a type for a column that does not exist. `names` says who names them.
    fn check_columns(&self, names: &str) -> Result<(), DataError> {
        let columns = self.columns.iter().enumerate();
        let again = |(at, name): &(usize, &Key)| self.columns[..*at].contains(name);
        if let Some((_, name)) = columns.clone().find(again) {
            let count = self.columns.iter().filter(|column| *column == name).count();
            let reason = format!(
                "{names} the column '{name}' {count} times, expected each name once: give each column a name of its \
                 own in the file, or with `column_names` (and `skip_header_lines = 1`)"
            );
            return Err(file_error(&self.path, reason));
        }
        let is_absent = |name: &&String| !self.columns.iter().any(|column| **column == ***name);
        let Some(name) = self.options.typed.iter().find(is_absent) else { return Ok(()) };
        let columns: Vec<&str> = self.columns.iter().map(|column| &**column).collect();
        let suggestion = did_you_mean(name, columns.iter().copied());
        let columns = columns.join("', '");
        let reason = format!(
            "`dtypes` names the column '{name}', and the columns are '{columns}': {suggestion}"
        );
        Err(file_error(&self.path, reason))
    }

    /// The next record that is not blank, without its end; `false` at the end of the file.
    fn read_record(&mut self, record: &mut Vec<u8>) -> Result<bool, DataError> {
        loop {
            record.clear();
            let (start, mut scan) = (self.position, Scan::Start);
            loop {
                let before = record.len();
                let read = read_line(&mut self.reader, record, LONGEST_RECORD);
                let read = read.map_err(|source| read_error(&self.path, start, source))?;
                let Some(read) = read else {
                    return Err(match scan.over(&record[before..], &self.options) {
                        Scan::Quoted => self.unclosed(start),
                        _ => too_long(&self.path, start, LONGEST_RECORD),
                    });
                };
                if self.position.bytes == 0 {
                    without_byte_order_mark(record);
                    check_line_ends(&self.path, record)?;
                }
                self.position.bytes += read as u64;
                scan = scan.over(&record[before..], &self.options);
                if scan != Scan::Quoted {
                    break;
                }
                if read == 0 {
                    // Several lines may be one record, or many records after a stray quote.
                    let lines = record.iter().filter(|byte| **byte == b'\n').count();
                    self.breaks_off = read == 0 && lines <= 1;
                    return Err(self.unclosed(start));
                }
            }
            if record.is_empty() {
                return Ok(false);
            }
            self.position.records += 1;
            if record.last() == Some(&b'\n') {
                record.pop();
                if record.last() == Some(&b'\r') {
                    record.pop();
                }
            }
            if !record.is_empty() {
                return Ok(true);
            }
        }
    }

    fn unclosed(&self, start: RecordPosition) -> DataError {
        let (number, offset) = (start.records + 1, start.bytes);
        let place = format!("{}, record {number} at byte {offset}", self.path);
        let reason = "a quote is opened and not closed; if quotes have no meaning in these files, \
                      set `quote_char = None`";
        DataError::Record { place, reason: reason.to_string() }
    }
}

impl RecordReader for CsvRecords {
    fn next_record(&mut self) -> Result<Option<Body>, DataError> {
        let mut bytes = Vec::new();
        let found = self.read_record(&mut bytes)?;
        Ok(found.then(|| Body::Fields { bytes, columns: self.columns.clone() }))
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

    use super::super::testing::{error_of, file, gzip, rest};
    use super::*;

    fn options() -> CsvOptions {
        CsvOptions {
            delimiter: b',',
            quote: Some(b'"'),
            column_names: None,
            skip: 0,
            typed: Vec::new(),
        }
    }

    /// The fields as text, separated by `|`, after the names of their columns.
    fn show(body: Body) -> String {
        let Body::Fields { bytes, columns } = body else { panic!("no fields") };
        let names: Vec<&str> = columns.iter().map(|name| &**name).collect();
        let fields = fields(&bytes, &options()).unwrap();
        let fields: Vec<_> = fields.iter().map(|field| String::from_utf8_lossy(field)).collect();
        format!("{}: {}", names.join(","), fields.join("|"))
    }

    fn open(path: &Path, position: RecordPosition) -> CsvRecords {
        CsvRecords::open_at(path, &Arc::new(options()), position).unwrap()
    }

    #[test]
    fn quotes_hold_delimiters_line_ends_and_quotes_and_reading_resumes_anywhere() {
        let text =
            "\u{feff}a,b\r\n1,\"x, \"\"y\"\"\nz\"\r\n\n\"\",3\n\"\"\"q\"\"\",\"\n\n\"\n5,in\"side";
        let expected = ["a,b: 1|x, \"y\"\nz", "a,b: |3", "a,b: \"q\"|\n\n", "a,b: 5|in\"side"];
        // The bytes of a stored block come one by one at first.
        for bytes in [text.as_bytes().to_vec(), gzip(text.as_bytes(), 0)] {
            let (_dir, path) = file(&bytes);
            let mut whole = open(&path, RecordPosition::default());
            for left in 0..=expected.len() {
                assert_eq!(rest(&mut open(&path, whole.position()), show), expected[left..]);
                whole.next_record().unwrap();
            }
        }
    }

    #[test]
    fn two_columns_of_one_name_and_old_line_ends_are_named() {
        for (text, part) in [
            ("a,b,a\n1,2,3\n", "its first record names the column 'a' 2 times, expected each"),
            ("a,b\r1,2\r", "its lines end with a carriage return alone"),
        ] {
            let (_dir, path) = file(text.as_bytes());
            let start = RecordPosition::default();
            let opened = CsvRecords::open_at(&path, &Arc::new(options()), start);
            let error = opened.err().expect("it is refused").to_string();
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn an_open_quote_is_named_with_its_record_and_byte() {
        let (_dir, path) = file(b"a,b\n1,2\n3,\"x\n4,5\n");
        let error = error_of(Ok(Box::new(open(&path, RecordPosition::default()))));
        assert!(error.contains("file, record 3 at byte 8: a quote is opened and not"), "{error}");
    }

    #[test]
    fn a_record_without_an_end_is_named_in_bounded_memory() {
        for (field, reason) in [("x", "it does not end within 67108864 bytes"), ("\"", "a quote")] {
            let (_dir, path) = file(b"a,b\n");
            let mut records = open(&path, RecordPosition::default());
            let long = io::repeat(b'x').take(3 * LONGEST_RECORD as u64);
            let text = field.as_bytes().chain(long);
            records.reader = Decoded::new(text, None);
            let mut record = Vec::new();
            let error = records.read_record(&mut record).unwrap_err().to_string();
            assert!(error.contains("file, record 2 at byte 4: "), "{error}");
            assert!(error.contains(reason) && !records.breaks_off, "{error}");
            assert!(record.capacity() <= 2 * LONGEST_RECORD + 2);
        }
    }

    #[test]
    fn text_behind_a_closing_quote_is_refused() {
        assert!(fields(b"\"a\"b,c", &options()).unwrap_err().contains("followed by 'b'"));
    }
}
