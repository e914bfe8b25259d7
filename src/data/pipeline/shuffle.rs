//! Shuffling within blocks.

use std::sync::Arc;

use super::pull::{Pull, Stage, StageState, Within};
use crate::error::DataError;
use crate::example::Example;
use crate::random::StageSeed;

/// Yields blocks of `size` examples, each block in a different random order, while it fills the
/// next.
///
/// `tf.data` draws from a buffer that it refills one by one, so the content of the buffer depends
/// on all examples read before. A block depends only on its index, so a position is the beginning
/// of the block and the number of its examples already yielded, whatever the size.
pub(crate) struct Shuffle {
    input: Stage,
    seed: StageSeed,
    size: usize,
    /// The block being yielded, in reverse order, and the position at its beginning.
    block: Vec<Example>,
    taken: u64,
    start: Start,
    /// The block being filled; it grows by one for each example taken from the other block.
    next: Vec<Example>,
    next_start: Start,
    ended: bool,
}

/// The beginning of a block.
struct Start {
    /// Blocks before it.
    index: u64,
    input: Arc<StageState>,
}

impl Shuffle {
    /// Shuffles the examples that `input` yields; `size` is at least 1.
    pub(crate) fn new(input: Stage, seed: StageSeed, size: usize) -> Self {
        let start = || Start { index: 0, input: input.save().into() };
        let (start, next_start) = (start(), start());
        Self {
            input,
            seed,
            size: size.max(1),
            block: Vec::new(),
            taken: 0,
            start,
            next: Vec::new(),
            next_start,
            ended: false,
        }
    }

    /// Pulls until the next block holds `count` examples.
    fn fill(&mut self, count: usize) -> Result<(), DataError> {
        while !self.ended && self.next.len() < count {
            match self.input.pull()? {
                Some(example) => self.next.push(example),
                None => self.ended = true,
            }
        }
        Ok(())
    }

    /// Makes the next block the current one.
    fn turn(&mut self) -> Result<(), DataError> {
        self.fill(self.size)?;
        let index = self.next_start.index + 1;
        let next_start = Start { index, input: self.input.save().into() };
        self.start = std::mem::replace(&mut self.next_start, next_start);
        self.block = std::mem::take(&mut self.next);
        self.seed.draw(self.start.index).shuffle(&mut self.block);
        self.taken = 0;
        Ok(())
    }
}

impl Pull for Shuffle {
    type Item = Example;

    fn pull(&mut self) -> Result<Option<Example>, DataError> {
        if self.block.is_empty() {
            self.turn()?;
        }
        let Some(example) = self.block.pop() else { return Ok(None) };
        self.taken += 1;
        // One example is pulled for each one yielded, so that no batch waits for a whole block.
        self.fill((self.taken as usize).min(self.size))?;
        Ok(Some(example))
    }

    fn save(&self) -> StageState {
        let (start, taken) = match self.block.is_empty() {
            true => (&self.next_start, 0),
            false => (&self.start, self.taken),
        };
        let counters = Within { counter: start.index, taken };
        StageState::new("shuffle", &counters, [start.input.clone()])
    }

    fn restore(&mut self, state: &StageState) -> Result<(), DataError> {
        let Within { counter: index, taken } = state.read("shuffle", 1)?;
        self.input.restore(&state.inputs[0])?;
        self.next_start = Start { index, input: state.inputs[0].clone() };
        for _ in 0..taken {
            self.pull()?;
        }
        Ok(())
    }
}
