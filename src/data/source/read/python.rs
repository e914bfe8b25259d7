//! Records that a function of the user's Python yields.

use std::vec::IntoIter;

use rmpv::Value as Wire;

use super::{Body, RecordPosition, RecordReader};
use crate::error::DataError;
use crate::example::Example;
use crate::python::of_python;
use gimlet_python::{Dedicated, PythonError, PythonFunction, PythonWorkers};

/// Number of records requested at once.
const RECORDS_AT_ONCE: u64 = 256;

/// A split of a source that Python reads.
#[derive(Debug)]
pub(crate) struct PythonSource {
    pub task: String,
    pub split: String,
    pub function: PythonFunction,
    pub workers: PythonWorkers,
}

impl PythonSource {
    /// The name in a path: module and function, or module and task.
    pub(crate) fn name(&self) -> String {
        let PythonFunction { module, function, task, .. } = &self.function;
        format!("{module}:{}", function.as_ref().or(task.as_ref()).map_or("", String::as_str))
    }

    fn error(&self, reason: String) -> DataError {
        let place = format!("split '{}'", self.split);
        DataError::Python { task: self.task.clone(), place, reason }
    }

    /// Records from a position on; fewer than requested at the end.
    fn records(&self, process: &mut Dedicated, position: u64) -> Result<Vec<Example>, DataError> {
        let entries = [
            ("split", Wire::from(&self.split[..])),
            ("position", Wire::from(position)),
            ("count", Wire::from(RECORDS_AT_ONCE)),
        ];
        let asked = |function: &PythonFunction| -> Result<Wire, PythonError> {
            process.call(function, &function.request("source", entries)?)
        };
        let made = asked(&self.function).map_err(|error| self.error(error.to_string()))?;
        let Wire::Array(records) = made else { unreachable!("the worker gives a list") };
        let read = |(record, index)| {
            of_python(record, None).map_err(|reason| {
                self.error(format!("{}, record {}: {reason}", self.function, position + index + 1))
            })
        };
        records.into_iter().zip(0..).map(read).collect()
    }
}

/// Reads with a separate process, which keeps the data set open between requests.
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
}

impl RecordReader for PythonRecords {
    fn next_record(&mut self) -> Result<Option<Body>, DataError> {
        if self.at_hand.len() == 0 && !self.ended {
            let records = self.source.records(&mut self.process, self.position.records)?;
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
