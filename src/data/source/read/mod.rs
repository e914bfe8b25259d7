//! The records of one file; each format has a [`RecordReader`].
//!
//! A reader knows its exact position and can be opened at any position that it returned. It cuts
//! files into records; [`super::parse`] converts them to examples on other threads.

mod arrow_ipc;
mod bounded;
mod csv;
mod decode;
mod error;
mod frames;
mod json_items;
mod leaf;
mod lines;
mod megatron;
mod panics;
mod parquet;
mod position;
mod python;
mod record;
mod rows;
mod seek;
mod testing;
mod tests;
mod tf_record;

use std::ops::Range;

use super::file::{Format, SourceFile};
use crate::error::{DataError, file_error};
use decode::{Compression, PROBE};
use gimlet_storage::Path;

pub(crate) use arrow_ipc::about_num_rows;
pub(crate) use csv::fields;
pub(crate) use decode::expansion;
pub(crate) use parquet::num_rows;
pub use position::FrameStart;
pub(crate) use position::RecordPosition;
pub(crate) use record::{Body, Record, RecordReader};
pub(crate) use tf_record::frame;

/// Opens a file at a position that [`RecordReader::position`] returned, or at its beginning.
pub(crate) fn open_records(
    file: &SourceFile,
    position: RecordPosition,
) -> Result<Box<dyn RecordReader>, DataError> {
    let path = &file.path;
    gimlet_telemetry::detail_once(&format!("opening {path}"));
    let mut reader: Box<dyn RecordReader> = match &file.format {
        Format::Text => Box::new(lines::Lines::open_at(path, position)?),
        Format::Json { field } => json_items::open_json(path, field.as_deref(), position)?,
        Format::Csv(options) => Box::new(csv::CsvRecords::open_at(path, options, position)?),
        Format::TfRecord => Box::new(tf_record::TfRecords::open_at(path, position)?),
        Format::Parquet(options) => {
            Box::new(parquet::ParquetRows::open_at(path, options.clone(), position)?)
        }
        Format::Arrow(options) => arrow_ipc::open_arrow(path, options.clone(), position)?,
        Format::Megatron => Box::new(megatron::Documents::open_at(path, position)?),
        Format::Python { source, .. } => {
            Box::new(python::PythonRecords::open_at(source.clone(), position))
        }
        Format::Generated { num_examples, .. } => {
            Box::new(Numbers { position, num_examples: *num_examples })
        }
        Format::Samples(samples) => {
            Box::new(Numbers { position, num_examples: samples.num_samples()? })
        }
    };
    let Some(range) = file.records.clone() else { return Ok(reader) };
    let reached = reader.position().records;
    reader.skip(range.start.saturating_sub(reached))?;
    Ok(Box::new(RecordRange { path: path.clone(), reader, range }))
}

/// A range of a file's records.
struct RecordRange {
    path: Path,
    reader: Box<dyn RecordReader>,
    range: Range<u64>,
}

impl RecordReader for RecordRange {
    fn next_record(&mut self) -> Result<Option<Body>, DataError> {
        if self.reader.position().records >= self.range.end {
            return Ok(None);
        }
        let record = self.reader.next_record()?;
        match record.is_some() {
            true => Ok(record),
            false => Err(self.ends_early()),
        }
    }

    fn position(&self) -> RecordPosition {
        self.reader.position()
    }

    fn recovers(&self) -> bool {
        self.reader.recovers()
    }

    /// If records are missing after the one in error, more than that one is lost.
    fn breaks_off(&self) -> bool {
        self.reader.breaks_off() && self.reader.position().records + 1 >= self.range.end
    }
}

impl RecordRange {
    /// The error of a file with fewer records than the description of its data set counts.
    fn ends_early(&self) -> DataError {
        let (found, expected) = (self.reader.position().records, self.range.end);
        let reason = format!(
            "it ends after {found} of at least {expected} records, the number that its data set gives; \
             fetch or prepare the file again"
        );
        file_error(&self.path, reason)
    }
}

/// Record numbers without a file.
struct Numbers {
    position: RecordPosition,
    num_examples: u64,
}

impl RecordReader for Numbers {
    fn next_record(&mut self) -> Result<Option<Body>, DataError> {
        let ended = self.position.records >= self.num_examples;
        self.position.records += u64::from(!ended);
        Ok((!ended).then_some(Body::Number))
    }

    fn position(&self) -> RecordPosition {
        self.position
    }

    fn skip(&mut self, count: u64) -> Result<(), DataError> {
        self.position.records += count;
        Ok(())
    }
}

/// The size, for messages, of a file's part after a byte of its records. For compressed files, the
/// byte in the file is unknown.
pub(crate) fn lost_behind(file: &SourceFile, offset: u64) -> String {
    let compression_of = match file.format {
        Format::TfRecord => tf_record::compression_of,
        _ => Compression::of_text,
    };
    let plain_size = || {
        let size = file.path.size().ok()?;
        let first = file.path.read_range(0..size.min(PROBE as u64)).ok()?;
        (compression_of(&first) == Compression::Plain).then_some(size)
    };
    match plain_size() {
        Some(size) => format!("{} of its {size} bytes", size.saturating_sub(offset)),
        None => format!("all behind byte {offset} of its decompressed bytes"),
    }
}
