//! Lengths of files, as positions in them count.

use super::file::{Format, SourceFile};
use super::read::{RecordPosition, about_num_rows, expansion, num_rows};
use crate::error::DataError;

impl SourceFile {
    /// Length of the part to read, in the unit of positions; an estimate if the file is compressed
    /// or Arrow with many batches.
    pub(crate) fn length(&self) -> Result<Length, DataError> {
        let records = |count| Ok(Length::Records { first: 0, count });
        match (&self.records, &self.format) {
            (Some(part), _) => {
                Ok(Length::Records { first: part.start, count: part.end - part.start })
            }
            (None, Format::Python { num_examples, .. }) => records(num_examples.unwrap_or(0)),
            (None, Format::Generated { num_examples, .. }) => records(*num_examples),
            (None, Format::Samples(samples)) => records(samples.num_samples()?),
            (None, Format::Parquet(_)) => records(num_rows(&self.path)?),
            (None, Format::Arrow(_)) => records(about_num_rows(&self.path)?),
            (None, _) => Ok(Length::Bytes(self.size()? as f64 * expansion(&self.path)?)),
        }
    }
}

/// Length of the part of a file that is read.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Length {
    /// `count` records, beginning with record `first`.
    Records { first: u64, count: u64 },
    /// Number of uncompressed bytes.
    Bytes(f64),
}

impl Length {
    /// The share before a position, from 0 to 1.
    pub(crate) fn share_before(self, position: RecordPosition) -> f64 {
        match self {
            Self::Records { first, count } => {
                share(position.records.saturating_sub(first) as f64, count as f64)
            }
            Self::Bytes(whole) => share(position.bytes as f64, whole),
        }
    }
}

/// Returns at least one in a billion, so that callers can divide by it.
fn share(part: f64, whole: f64) -> f64 {
    (part / whole.max(1.0)).clamp(1e-9, 1.0)
}
