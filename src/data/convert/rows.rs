//! The stage that makes rows of examples, packed or not.

use super::converter::{FeatureConverter, Packing};
use super::row::Row;
use crate::error::DataError;
use crate::pipeline::{Pull, Pulled, Stage, StageState};

/// Rows that the dense packer keeps open.
const OPEN_ROWS: usize = 32;

/// Makes rows of examples: one row for each example, or packed rows.
pub(crate) struct Rows {
    input: Stage,
    converter: FeatureConverter,
    /// Examples of the current packing batch that were packed.
    in_batch: usize,
    /// Rows with room, oldest first.
    open: Vec<Row>,
    ended: bool,
}

impl Rows {
    /// Makes rows of the examples that `input` yields.
    pub(crate) fn new(input: Stage, converter: FeatureConverter) -> Self {
        Self { input, converter, in_batch: 0, open: Vec::new(), ended: false }
    }

    fn pull_row(&mut self) -> Result<Option<Row>, DataError> {
        let example = self.input.pull()?;
        example.map(|example| self.converter.row(example)).transpose()
    }

    /// Packs as SeqIO does: in order, a row at a time. Its packing batches have as many examples as
    /// the longest row has tokens, and a row never crosses the end of such a batch.
    fn pull_greedy(&mut self) -> Result<Option<Row>, DataError> {
        let packing_batch = self.converter.fields.iter().map(|field| field.length).max();
        loop {
            if Some(self.in_batch) == packing_batch {
                self.in_batch = 0;
                return Ok(self.open.pop());
            }
            let Some(next) = self.pull_row()? else {
                self.in_batch = 0;
                return Ok(self.open.pop());
            };
            self.in_batch += 1;
            match self.open.first_mut() {
                Some(row) if self.converter.fits(row, &next) => row.append(next),
                _ => {
                    if let Some(row) = self.open.pop() {
                        self.open.push(next);
                        return Ok(Some(row));
                    }
                    self.open.push(next);
                }
            }
        }
    }

    /// Fills many rows at a time: each example goes to the fullest row that has room for it; if no
    /// row has room, the fullest row is yielded.
    fn pull_dense(&mut self) -> Result<Option<Row>, DataError> {
        while !self.ended {
            let Some(next) = self.pull_row()? else {
                self.ended = true;
                break;
            };
            let fullest = |rows: &[Row], fits: &dyn Fn(&Row) -> bool| {
                let fitting = rows.iter().enumerate().filter(|(_, row)| fits(row));
                // The earliest of equally full rows, so that no row waits forever.
                fitting.rev().max_by_key(|(_, row)| row.num_tokens()).map(|(i, _)| i)
            };
            let has_room = |row: &Row| self.converter.fits(row, &next);
            match fullest(&self.open, &has_room) {
                Some(i) => self.open[i].append(next),
                None => {
                    let full =
                        fullest(&self.open, &|_| true).filter(|_| self.open.len() == OPEN_ROWS);
                    let full = full.map(|i| self.open.remove(i));
                    self.open.push(next);
                    if full.is_some() {
                        return Ok(full);
                    }
                }
            }
        }
        Ok((!self.open.is_empty()).then(|| self.open.remove(0)))
    }
}

impl Pull for Rows {
    type Item = Row;

    fn pull(&mut self) -> Result<Option<Row>, DataError> {
        match self.converter.packing {
            Packing::None => self.pull_row(),
            Packing::Greedy => self.pull_greedy(),
            Packing::Dense => self.pull_dense(),
        }
    }

    fn begin_step(&mut self, step: u64) {
        self.input.begin_step(step);
    }

    fn save(&self) -> StageState {
        let counters = Pulled { counter: self.in_batch as u64 };
        let mut state = StageState::new("rows", &counters, [self.input.save()]);
        state.examples = self.open.iter().map(Row::to_example).collect();
        state
    }

    fn restore(&mut self, state: &StageState) -> Result<(), DataError> {
        let Pulled { counter } = state.read("rows", 1)?;
        self.input.restore(&state.inputs[0])?;
        self.in_batch = counter as usize;
        self.open = state.examples.iter().map(Row::from_example).collect();
        Ok(())
    }
}
