//! Joining documents and cutting them into pieces.

use super::pull::{Pull, Stage, StageState};
use crate::data::error::DataError;
use crate::data::example::{Example, Key, Origin, Value};

fn no_targets(task: &str, step: &str, example: &Example) -> DataError {
    DataError::Preprocess {
        task: task.to_string(),
        step: step.to_string(),
        place: example.origin().map_or("a joined example".to_string(), Origin::to_string),
        reason: format!("'targets' must hold token ids; the example has {}", example.names()),
    }
}

fn targets_of(task: &str, step: &str, example: &mut Example) -> Result<Vec<i32>, DataError> {
    match example.take("targets") {
        Some(Value::Ints(ids)) => Ok(ids),
        other => {
            if let Some(value) = other {
                example.set("targets".into(), value);
            }
            Err(no_targets(task, step, example))
        }
    }
}

/// Joins the 'targets' of `num_examples` examples; zeros, which pad, vanish.
pub(crate) struct Concat {
    pub input: Stage,
    pub task: String,
    pub num_examples: usize,
    pub targets: Key,
}

impl Pull for Concat {
    type Item = Example;

    fn pull(&mut self) -> Result<Option<Example>, DataError> {
        let mut joined = Vec::new();
        let mut found = false;
        for _ in 0..self.num_examples {
            let Some(mut example) = self.input.pull()? else { break };
            found = true;
            let ids = targets_of(&self.task, "reduce_concat_tokens", &mut example)?;
            joined.extend(ids.into_iter().filter(|&id| id != 0));
        }
        Ok(found.then(|| Example::of(self.targets.clone(), Value::Ints(joined))))
    }

    /// Nothing is held between pulls.
    fn save(&self) -> StageState {
        StageState::new("concat", Vec::new(), vec![self.input.save()])
    }

    fn restore(&mut self, state: &StageState) -> Result<(), DataError> {
        state.expect("concat", Some(0), 1)?;
        self.input.restore(&state.inputs[0])
    }
}

/// Cuts 'targets' into pieces of `max_tokens`, the last one shorter.
pub(crate) struct Split {
    input: Stage,
    task: String,
    max_tokens: usize,
    passthrough: Vec<String>,
    targets: Key,
    held: Option<Held>,
}

/// The example that is being cut, and where it came from.
struct Held {
    input: StageState,
    tokens: Vec<i32>,
    pieces: usize,
    rest: Example,
}

impl Split {
    /// Cuts what `input` yields.
    pub(crate) fn new(
        input: Stage,
        task: String,
        max_tokens: usize,
        passthrough: Vec<String>,
    ) -> Self {
        let targets = "targets".into();
        Self { input, task, max_tokens, passthrough, targets, held: None }
    }

    /// Takes hold of the next example that is not empty; `false` at the end.
    fn hold_next(&mut self) -> Result<bool, DataError> {
        loop {
            let input = self.input.save();
            let Some(mut rest) = self.input.pull()? else {
                self.held = None;
                return Ok(false);
            };
            let tokens = targets_of(&self.task, "split_tokens", &mut rest)?;
            if !tokens.is_empty() {
                rest.retain(|key| self.passthrough.iter().any(|kept| kept == key));
                self.held = Some(Held { input, tokens, pieces: 0, rest });
                return Ok(true);
            }
        }
    }
}

impl Pull for Split {
    type Item = Example;

    fn pull(&mut self) -> Result<Option<Example>, DataError> {
        loop {
            if let Some(held) = &mut self.held
                && let Some(piece) = held.tokens.chunks(self.max_tokens).nth(held.pieces)
            {
                held.pieces += 1;
                let mut example = held.rest.clone();
                example.set(self.targets.clone(), Value::Ints(piece.to_vec()));
                return Ok(Some(example));
            }
            if !self.hold_next()? {
                return Ok(None);
            }
        }
    }

    /// Where the example being cut came from, and how many pieces are gone.
    fn save(&self) -> StageState {
        let (pieces, input) = match &self.held {
            Some(held) => (held.pieces, held.input.clone()),
            None => (0, self.input.save()),
        };
        StageState::new("split", vec![pieces as u64], vec![input])
    }

    fn restore(&mut self, state: &StageState) -> Result<(), DataError> {
        state.expect("split", Some(1), 1)?;
        self.input.restore(&state.inputs[0])?;
        if state.counters[0] > 0 && self.hold_next()? {
            self.held.as_mut().expect("just held").pieces = state.counters[0] as usize;
        }
        Ok(())
    }
}
