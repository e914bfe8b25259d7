//! Cutting a sequence of token ids into pieces of one length, across examples.

use super::chunks::StepContext;
use super::pull::{Pull, Pulled, Stage, StageState};
use crate::error::DataError;
use crate::example::Example;
use crate::value::{Key, Value};

/// Yields pieces of `length` tokens of one feature; the very last piece is shorter.
pub(crate) struct Rebatch {
    input: Stage,
    context: StepContext,
    feature: Key,
    length: usize,
    /// Examples pulled.
    counter: u64,
    /// Tokens pulled; those before `start` have been yielded.
    tokens: Vec<i32>,
    start: usize,
}

impl Rebatch {
    /// Cuts the tokens of the examples that `input` yields.
    pub(crate) fn new(input: Stage, context: StepContext, feature: Key, length: usize) -> Self {
        Self { input, context, feature, length, counter: 0, tokens: Vec::new(), start: 0 }
    }

    /// Pulls until there are tokens for a whole piece, or no more.
    fn fill(&mut self) -> Result<(), DataError> {
        if self.tokens.len() - self.start >= self.length {
            return Ok(());
        }
        self.tokens.drain(..self.start);
        self.start = 0;
        while self.tokens.len() < self.length
            && let Some(example) = self.input.pull()?
        {
            match example.ints(&self.feature) {
                Some(ids) => self.tokens.extend_from_slice(ids),
                None => {
                    let found = example.names();
                    let reason = format!("token ids '{}' are missing; found {found}", self.feature);
                    return Err(self.context.error(example.origin(), self.counter, reason));
                }
            }
            self.counter += 1;
        }
        Ok(())
    }
}

impl Pull for Rebatch {
    type Item = Example;

    fn pull(&mut self) -> Result<Option<Example>, DataError> {
        self.fill()?;
        let end = (self.start + self.length).min(self.tokens.len());
        let piece = self.tokens[self.start..end].to_vec();
        self.start = end;
        match piece.is_empty() {
            true => Ok(None),
            false => Ok(Some(Example::of(self.feature.clone(), Value::Ints(piece)))),
        }
    }

    /// Saves the remaining tokens of the last example pulled.
    fn save(&self) -> StageState {
        let mut state =
            StageState::new("rebatch", &Pulled { counter: self.counter }, [self.input.save()]);
        let rest = self.tokens[self.start..].to_vec();
        state.examples = vec![Example::of(self.feature.clone(), Value::Ints(rest))];
        state
    }

    fn restore(&mut self, state: &StageState) -> Result<(), DataError> {
        let Pulled { counter } = state.read("rebatch", 1)?;
        self.input.restore(&state.inputs[0])?;
        self.counter = counter;
        let rest = state.examples.first().and_then(|example| example.ints(&self.feature));
        self.tokens = rest.unwrap_or_default().to_vec();
        self.start = 0;
        Ok(())
    }
}
