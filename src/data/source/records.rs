//! The records of one file: lines, or TFRecords.

use super::files::{Format, SourceFile};
use super::lines::Lines;
use super::tf_record::TfRecords;
use crate::data::error::DataError;

/// A position in a file, in records and in uncompressed bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RecordPosition {
    pub records: u64,
    pub bytes: u64,
}

/// Reads a file record by record and knows where it is.
pub(crate) enum Records {
    Lines(Lines),
    TfRecords(TfRecords),
}

impl Records {
    /// Opens the file at a position that [`Records::position`] once gave, or at its beginning.
    pub(crate) fn open_at(file: &SourceFile, position: RecordPosition) -> Result<Self, DataError> {
        match file.format {
            Format::Text | Format::Json => Lines::open_at(&file.path, position).map(Self::Lines),
            Format::TfRecord => TfRecords::open_at(&file.path, position).map(Self::TfRecords),
        }
    }

    /// The next record, into `record`; `false` at the end of the file.
    pub(crate) fn next(&mut self, record: &mut Vec<u8>) -> Result<bool, DataError> {
        match self {
            Self::Lines(lines) => lines.next_line(record),
            Self::TfRecords(records) => records.next_record(record),
        }
    }

    /// The position after the last record.
    pub(crate) fn position(&self) -> RecordPosition {
        match self {
            Self::Lines(lines) => lines.position,
            Self::TfRecords(records) => records.position,
        }
    }
}
