//! Joining several examples to one, and splitting one example into several.

use super::map::{place, skip};
use super::pull::{Pull, Pulled, Stage, StageState, Within};
use crate::error::DataError;
use crate::example::{Example, Origin};
use crate::preprocess::{ExamplePosition, FlatMapStep, JoinStep};
use crate::random::StageSeed;
use crate::source::BadRecordGuard;

/// The context of a preprocessor's stage.
pub(crate) struct StepContext {
    pub task: String,
    pub name: &'static str,
    pub seed: StageSeed,
    /// Handles examples that the step cannot process.
    pub bad_records: BadRecordGuard,
}

impl StepContext {
    /// The error for an example.
    pub(super) fn error(&self, origin: Option<&Origin>, counter: u64, reason: String) -> DataError {
        let (task, step) = (self.task.clone(), self.name.to_string());
        DataError::Preprocess { task, step, place: place(origin, counter), reason }
    }
}

/// Makes one example from several.
pub(crate) struct Join {
    pub input: Stage,
    pub context: StepContext,
    pub num_examples: usize,
    pub step: Box<dyn JoinStep>,
    /// Examples pulled.
    pub counter: u64,
}

impl Pull for Join {
    type Item = Example;

    fn pull(&mut self) -> Result<Option<Example>, DataError> {
        let first = self.counter;
        let mut examples = Vec::with_capacity(self.num_examples);
        while examples.len() < self.num_examples
            && let Some(example) = self.input.pull()?
        {
            examples.push(example);
            self.counter += 1;
        }
        if examples.is_empty() {
            return Ok(None);
        }
        let origin = examples[0].origin().cloned();
        let place = ExamplePosition { seed: &self.context.seed, counter: first };
        let joined = self.step.apply(examples, place);
        joined.map(Some).map_err(|reason| self.context.error(origin.as_ref(), first, reason))
    }

    /// Nothing is held between pulls.
    fn save(&self) -> StageState {
        StageState::new("join", &Pulled { counter: self.counter }, [self.input.save()])
    }

    fn restore(&mut self, state: &StageState) -> Result<(), DataError> {
        Pulled { counter: self.counter } = state.read("join", 1)?;
        self.input.restore(&state.inputs[0])
    }
}

/// Makes any number of examples from each example.
pub(crate) struct FlatMap {
    input: Stage,
    context: StepContext,
    step: Box<dyn FlatMapStep>,
    /// Examples pulled.
    counter: u64,
    held: Option<Held>,
}

/// The examples made from one example, and its position in the input.
struct Held {
    input: StageState,
    made: std::vec::IntoIter<Example>,
    taken: u64,
}

impl FlatMap {
    /// Applies `step` to the examples that `input` yields.
    pub(crate) fn new(input: Stage, context: StepContext, step: Box<dyn FlatMapStep>) -> Self {
        Self { input, context, step, counter: 0, held: None }
    }

    /// Holds the examples made from the next example; `false` at the end.
    fn hold_next(&mut self) -> Result<bool, DataError> {
        let input = self.input.save();
        let Some(mut example) = self.input.pull()? else {
            self.held = None;
            return Ok(false);
        };
        let origin = example.take_origin();
        let place = ExamplePosition { seed: &self.context.seed, counter: self.counter };
        let made = match self.step.apply(example, place) {
            Ok(made) => made,
            Err(reason) => {
                let error = self.context.error(origin.as_ref(), self.counter, reason);
                skip(&self.context.bad_records, error, origin.as_ref(), self.counter)?;
                Vec::new()
            }
        };
        let made: Vec<Example> =
            made.into_iter().map(|example| example.read_at(origin.clone())).collect();
        self.counter += 1;
        self.held = Some(Held { input, made: made.into_iter(), taken: 0 });
        Ok(true)
    }
}

impl Pull for FlatMap {
    type Item = Example;

    fn pull(&mut self) -> Result<Option<Example>, DataError> {
        loop {
            if let Some(held) = &mut self.held
                && let Some(example) = held.made.next()
            {
                held.taken += 1;
                return Ok(Some(example));
            }
            if !self.hold_next()? {
                return Ok(None);
            }
        }
    }

    /// Saves the position of the current example, and the number of results already taken.
    fn save(&self) -> StageState {
        let (counters, input) = match &self.held {
            Some(held) => {
                (Within { counter: self.counter - 1, taken: held.taken }, held.input.clone())
            }
            None => (Within { counter: self.counter, taken: 0 }, self.input.save()),
        };
        StageState::new("flat_map", &counters, [input])
    }

    fn restore(&mut self, state: &StageState) -> Result<(), DataError> {
        let Within { counter, taken } = state.read("flat_map", 1)?;
        self.input.restore(&state.inputs[0])?;
        self.counter = counter;
        if taken > 0 && self.hold_next()? {
            for _ in 0..taken {
                self.pull()?;
            }
        }
        Ok(())
    }
}
