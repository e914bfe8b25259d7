//! The rows of a part of the files.

use crate::convert::Row;
use crate::error::DataError;
use crate::pipeline::{Pull, StageState};

/// Rows of one part of the files; an error says which part has no examples.
pub(super) struct PartRows {
    pub rows: Box<dyn Pull<Item = Row>>,
    /// The part and its files, in words.
    pub part: String,
}

impl Pull for PartRows {
    type Item = Row;

    fn pull(&mut self) -> Result<Option<Row>, DataError> {
        self.rows.pull().map_err(|error| match error {
            DataError::Empty { task, split, detail } => {
                let remedy = "give files with examples, or fewer parts";
                let detail = format!("{detail}; {}: {remedy}", self.part);
                DataError::Empty { task, split, detail }
            }
            other => other,
        })
    }

    fn begin_step(&mut self, step: u64) {
        self.rows.begin_step(step);
    }

    fn save(&self) -> StageState {
        self.rows.save()
    }

    fn restore(&mut self, state: &StageState) -> Result<(), DataError> {
        self.rows.restore(state)
    }
}
