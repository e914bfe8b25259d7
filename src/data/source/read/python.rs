//! Records that a function of the user's Python yields.

use std::vec::IntoIter;

use rmpv::Value as Wire;

use super::super::file::PythonSource;
use super::position::RecordPosition;
use super::record::{Body, RecordReader};
use crate::error::DataError;
use crate::example::Example;
use crate::python::of_python;
use gimlet_python::Dedicated;

/// Number of records requested at once.
const RECORDS_AT_ONCE: u64 = 256;

/// Reads with a process of its own, which keeps the data set open between requests, and which the next epoch's
/// reader takes over.
pub(super) struct PythonRecords {
    source: std::sync::Arc<PythonSource>,
    process: Dedicated,
    position: RecordPosition,
    at_hand: IntoIter<Example>,
    ended: bool,
}

impl PythonRecords {
    /// A reader that begins after the records before `position`.
    pub(super) fn open_at(source: std::sync::Arc<PythonSource>, position: RecordPosition) -> Self {
        let process = Dedicated::new(&source.workers);
        Self { source, process, position, at_hand: Vec::new().into_iter(), ended: false }
    }

    /// Records from the position on; fewer than requested at the end.
    fn read_more(&mut self) -> Result<Vec<Example>, DataError> {
        let Self { source, position, .. } = self;
        let function = &source.function;
        let entries = [
            ("split", Wire::from(&source.split[..])),
            ("position", Wire::from(position.records)),
            ("count", Wire::from(RECORDS_AT_ONCE)),
        ];
        let request = function.request("source", entries);
        let made = request.and_then(|request| self.process.call(function, &request));
        let made = made.map_err(|error| source.error(error.to_string()))?;
        let Wire::Array(records) = made else { unreachable!("the worker gives a list") };
        let read = |(record, index)| {
            of_python(record, None).map_err(|reason| {
                let number = position.records + index + 1;
                source.error(format!("{function}, record {number}: {reason}"))
            })
        };
        records.into_iter().zip(0..).map(read).collect()
    }
}

impl RecordReader for PythonRecords {
    fn next_record(&mut self) -> Result<Option<Body>, DataError> {
        if self.at_hand.len() == 0 && !self.ended {
            let records = self.read_more()?;
            self.ended = (records.len() as u64) < RECORDS_AT_ONCE;
            self.at_hand = records.into_iter();
        }
        let next = self.at_hand.next();
        self.position.records += u64::from(next.is_some());
        Ok(next.map(|example| Body::Example(Box::new(example))))
    }

    fn position(&self) -> RecordPosition {
        self.position
    }
}
