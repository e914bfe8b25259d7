//! One record of a file, and the contract of the readers that cut files into records.

use std::sync::Arc;

use super::super::file::SourceFile;
use super::position::RecordPosition;
use super::rows::Rows;
use crate::error::DataError;
use crate::example::Example;
use crate::megatron::TokenType;
use crate::value::{Key, Value};

/// The content of a record, as a reader returns it.
pub(crate) enum Body {
    /// Its bytes.
    Bytes(Vec<u8>),
    /// The JSON of an array's item.
    Item(Vec<u8>),
    /// A CSV record and the names of its fields.
    Fields { bytes: Vec<u8>, columns: Arc<[Key]> },
    /// A row of a batch.
    Row { batch: Arc<Rows>, index: usize },
    /// Token ids.
    Tokens { bytes: Vec<u8>, dtype: TokenType },
    /// The examples that Python made.
    Example(Box<Example>),
    /// No content: the record's number is enough.
    Number,
}

impl Body {
    /// Approximate size in memory, in bytes.
    pub(crate) fn size(&self) -> usize {
        match self {
            Self::Bytes(bytes)
            | Self::Item(bytes)
            | Self::Fields { bytes, .. }
            | Self::Tokens { bytes, .. } => bytes.len(),
            Self::Row { batch, .. } => batch.bytes / batch.len.max(1),
            Self::Example(example) => {
                let size = |value: &Value| match value {
                    Value::Text(text) => text.len(),
                    other => 8 * other.len().unwrap_or(1),
                };
                example.iter().map(|(_, value)| size(value)).sum()
            }
            Self::Number => 0,
        }
    }
}

/// Reads a file record by record and knows its position.
pub(crate) trait RecordReader: Send {
    /// The next record; `None` at the end of the file.
    fn next_record(&mut self) -> Result<Option<Body>, DataError>;

    /// The position after the last record.
    fn position(&self) -> RecordPosition;

    /// Whether, after an error, the next record can be read.
    fn recovers(&self) -> bool {
        false
    }

    /// Whether, after an error, no records follow the record in error: the file ends within it. The
    /// rest of a compressed stream is unknown after the point at which it breaks off.
    fn breaks_off(&self) -> bool {
        false
    }

    /// Skips records without parsing them.
    fn skip(&mut self, count: u64) -> Result<(), DataError> {
        // Blank lines count, and may be skipped together with a record.
        let goal = self.position().records + count;
        while self.position().records < goal {
            match self.next_record() {
                Ok(Some(_)) => {}
                Ok(None) => break,
                Err(_) if self.recovers() => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// One line or other record of a file.
pub(crate) struct Record {
    pub file: Arc<SourceFile>,
    /// The number of the record, from 1.
    pub number: u64,
    /// The offset of the record in uncompressed bytes.
    pub offset: u64,
    pub body: Body,
}

impl Record {
    /// Approximate size in memory, in bytes.
    pub(crate) fn size(&self) -> usize {
        size_of::<Self>() + self.body.size()
    }
}
