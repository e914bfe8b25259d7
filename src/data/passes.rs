//! The rows of a data set that repeats, one pass after the other. A pass is a pipeline of its own, which draws and shuffles anew,
//! and no batch holds rows of two passes: rows of padding fill the last batch of a pass.

use super::convert::{Row, Rows};
use super::error::DataError;
use super::pipeline::{Pull, StageState, Within};

/// The plan of all passes.
pub(super) struct PassPlan {
    /// Makes the rows of a pass, counted from 0.
    pub of_pass: Box<dyn Fn(u64) -> Result<Rows, DataError> + Send>,
    /// A row without loss weights.
    pub padding: Row,
    /// Rows that a batch takes.
    pub rows_of_batch: usize,
    /// The task or mixture, and the split.
    pub name: (String, String),
}

/// Yields the rows of all passes.
pub(super) struct Passes {
    plan: PassPlan,
    pass: u64,
    rows: Rows,
    /// Rows that the current pass has yielded.
    yielded: u64,
    /// Rows of the current batch that were yielded.
    in_batch: usize,
}

impl Passes {
    /// Begins with the first pass.
    pub fn new(plan: PassPlan) -> Result<Self, DataError> {
        let rows = (plan.of_pass)(0)?;
        Ok(Self { plan, pass: 0, rows, yielded: 0, in_batch: 0 })
    }

    fn begin(&mut self, pass: u64) -> Result<(), DataError> {
        self.rows = (self.plan.of_pass)(pass)?;
        (self.pass, self.yielded) = (pass, 0);
        Ok(())
    }
}

impl Pull for Passes {
    type Item = Row;

    /// A row; there is always a next one, unless a pass has none.
    fn pull(&mut self) -> Result<Option<Row>, DataError> {
        let mut next = self.rows.pull()?;
        if next.is_none() && self.in_batch == 0 && self.yielded > 0 {
            self.begin(self.pass + 1)?;
            next = self.rows.pull()?;
        }
        self.yielded += u64::from(next.is_some());
        if self.yielded == 0 {
            let (task, split) = self.plan.name.clone();
            return Err(DataError::Empty { task, split, detail: String::new() });
        }
        self.in_batch = (self.in_batch + 1) % self.plan.rows_of_batch;
        Ok(Some(next.unwrap_or_else(|| self.plan.padding.clone())))
    }

    /// Its position; called between two batches.
    fn save(&self) -> StageState {
        let counters = Within { counter: self.pass, taken: self.yielded };
        StageState::new("passes", &counters, [self.rows.save()])
    }

    fn restore(&mut self, state: &StageState) -> Result<(), DataError> {
        let Within { counter, taken } = state.read("passes", 1)?;
        self.begin(counter)?;
        self.yielded = taken;
        self.rows.restore(&state.inputs[0])
    }
}
