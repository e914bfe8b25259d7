//! The first examples, repeated.

use super::pull::{Pull, Pulled, Stage, StageState};
use crate::error::DataError;
use crate::example::Example;

/// Yields the first `num_examples` examples of its input again and again.
///
/// A restored stage reads them again, so that a position is only the number of examples yielded: there may be a million of
/// them, and each is a function of the input's files and seed.
pub(crate) struct Take {
    input: Stage,
    /// The examples to repeat, once the first pass is over.
    kept: Vec<Example>,
    is_whole: bool,
    num_examples: usize,
    /// `None` repeats forever.
    num_passes: Option<u64>,
    yielded: u64,
}

impl Take {
    /// Takes the first examples that `input` yields, which are not repeated there.
    pub(crate) fn new(input: Stage, num_examples: usize, num_passes: Option<u64>) -> Self {
        Self { input, kept: Vec::new(), is_whole: false, num_examples, num_passes, yielded: 0 }
    }

    /// Pulls until `count` examples are kept, or all.
    fn fill(&mut self, count: u64) -> Result<(), DataError> {
        while !self.is_whole && (self.kept.len() as u64) < count {
            match self.input.pull()? {
                Some(example) => self.kept.push(example),
                None => self.is_whole = true,
            }
            self.is_whole |= self.kept.len() == self.num_examples;
        }
        Ok(())
    }
}

impl Pull for Take {
    type Item = Example;

    fn pull(&mut self) -> Result<Option<Example>, DataError> {
        self.fill(self.yielded + 1)?;
        let count = self.kept.len() as u64;
        let (pass, place) = match count {
            0 => return Ok(None),
            count => (self.yielded / count, self.yielded % count),
        };
        if self.is_whole && self.num_passes.is_some_and(|passes| pass >= passes) {
            return Ok(None);
        }
        self.yielded += 1;
        Ok(Some(self.kept[place as usize].clone()))
    }

    fn save(&self) -> StageState {
        let none: [StageState; 0] = [];
        StageState::new("take", &Pulled { counter: self.yielded }, none)
    }

    fn restore(&mut self, state: &StageState) -> Result<(), DataError> {
        let Pulled { counter } = state.read("take", 0)?;
        self.yielded = counter;
        self.fill(counter)
    }
}
