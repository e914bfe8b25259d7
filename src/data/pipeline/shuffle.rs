//! A shuffle buffer.

use super::pull::{Pull, Stage, StageState};
use crate::data::error::DataError;
use crate::data::example::Example;
use crate::data::random::{Draw, StageSeed};

/// Holds `size` examples and yields a random one of them each time, as `tf.data`'s shuffle does.
pub(crate) struct Shuffle {
    input: Stage,
    seed: StageSeed,
    size: usize,
    buffer: Vec<Example>,
    ended: bool,
    /// Examples yielded.
    counter: u64,
    /// One value for each example yielded.
    draws: Draw,
}

impl Shuffle {
    /// Shuffles what `input` yields; `size` is at least 1.
    pub(crate) fn new(input: Stage, seed: StageSeed, size: usize) -> Self {
        let draws = seed.sequence(0);
        let buffer = Vec::new();
        Self { input, seed, size: size.max(1), buffer, ended: false, counter: 0, draws }
    }
}

impl Pull for Shuffle {
    type Item = Example;

    fn pull(&mut self) -> Result<Option<Example>, DataError> {
        while !self.ended && self.buffer.len() < self.size {
            match self.input.pull()? {
                Some(example) => self.buffer.push(example),
                None => self.ended = true,
            }
        }
        if self.buffer.is_empty() {
            return Ok(None);
        }
        self.counter += 1;
        let chosen = self.draws.below(self.buffer.len());
        Ok(Some(self.buffer.swap_remove(chosen)))
    }

    fn save(&self) -> StageState {
        let mut state = StageState::new("shuffle", vec![self.counter], vec![self.input.save()]);
        state.examples = self.buffer.clone();
        state
    }

    fn restore(&mut self, state: &StageState) -> Result<(), DataError> {
        state.expect("shuffle", Some(1), 1)?;
        self.input.restore(&state.inputs[0])?;
        self.buffer = state.examples.clone();
        self.counter = state.counters[0];
        self.draws = self.seed.sequence(self.counter);
        Ok(())
    }
}
