//! A stage of a pipeline: it yields item by item, and can save and restore its position.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::error::DataError;
use crate::example::Example;
use crate::source::FrameStart;

/// The position of a stage: counters and buffered examples, and the positions of the stages it
/// pulls from.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StageState {
    /// Name of the kind of stage, to detect a state of another pipeline.
    pub stage: String,
    /// The numbers of the position, in an order that the stage defines.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub counters: Vec<u64>,
    /// Examples that were pulled and not yielded yet.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub examples: Vec<Example>,
    /// For each open file, the frame at which decompression begins; empty if all begin at the
    /// beginnings of their files, as also those in positions of older versions do.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub frames: Vec<FrameStart>,
    /// The stages it pulls from.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inputs: Vec<Arc<StageState>>,
}

impl StageState {
    /// The state of a stage with one input.
    pub(crate) fn new<Input: Into<Arc<Self>>>(
        stage: &str,
        counters: &impl Counters,
        inputs: impl IntoIterator<Item = Input>,
    ) -> Self {
        let inputs = inputs.into_iter().map(Into::into).collect();
        Self { stage: stage.to_string(), counters: counters.list(), inputs, ..Self::default() }
    }

    /// The counters of a stage with this name, saved with this number of inputs.
    pub(crate) fn read<C: Counters>(&self, stage: &str, inputs: usize) -> Result<C, DataError> {
        let fits = self.stage == stage && self.inputs.len() == inputs;
        let counters = fits.then(|| C::of_list(&self.counters)).flatten();
        counters.ok_or_else(|| self.unexpected(stage))
    }

    /// The error of a state that does not fit the stage.
    pub(crate) fn unexpected(&self, stage: &str) -> DataError {
        let reason = format!("expected the state of `{stage}`, found that of `{}`", self.stage);
        DataError::State { reason }
    }
}

/// The numbers of a stage's position. They are saved as a list.
pub(crate) trait Counters: Sized {
    fn list(&self) -> Vec<u64>;

    /// The numbers in a list; `None` if it has another length.
    fn of_list(list: &[u64]) -> Option<Self>;
}

/// The position of a stage whose inputs say everything.
impl Counters for () {
    fn list(&self) -> Vec<u64> {
        Vec::new()
    }

    fn of_list(list: &[u64]) -> Option<Self> {
        list.is_empty().then_some(())
    }
}

/// The position of a stage that holds no results: between two items.
pub(crate) struct Pulled {
    /// Items pulled before it.
    pub counter: u64,
}

impl Counters for Pulled {
    fn list(&self) -> Vec<u64> {
        vec![self.counter]
    }

    fn of_list(list: &[u64]) -> Option<Self> {
        let &[counter] = list else { return None };
        Some(Self { counter })
    }
}

/// The position of a stage that makes several examples at once: within the examples made from an
/// item, a chunk or a block, which the stage makes again.
pub(crate) struct Within {
    /// Items pulled, or blocks made, before those.
    pub counter: u64,
    /// Examples of them that were yielded.
    pub taken: u64,
}

impl Counters for Within {
    fn list(&self) -> Vec<u64> {
        vec![self.counter, self.taken]
    }

    fn of_list(list: &[u64]) -> Option<Self> {
        let &[counter, taken] = list else { return None };
        Some(Self { counter, taken })
    }
}

/// A stage that yields items on request.
pub(crate) trait Pull: Send {
    /// Type of the items.
    type Item;

    /// The next item; `None` at the end and for every later call.
    fn pull(&mut self) -> Result<Option<Self::Item>, DataError>;

    /// Tells the stage for which training step the next items are: the number of the steps before it. A stage without a
    /// mixture before it has no use for it.
    fn begin_step(&mut self, _step: u64) {}

    /// Its position after the last item it yielded.
    fn save(&self) -> StageState;

    /// Restores a position; called before the first pull.
    fn restore(&mut self, state: &StageState) -> Result<(), DataError>;
}

/// A stage that yields examples.
pub(crate) type Stage = Box<dyn Pull<Item = Example>>;

impl Pull for Stage {
    type Item = Example;

    fn pull(&mut self) -> Result<Option<Example>, DataError> {
        (**self).pull()
    }

    fn begin_step(&mut self, step: u64) {
        (**self).begin_step(step);
    }

    fn save(&self) -> StageState {
        (**self).save()
    }

    fn restore(&mut self, state: &StageState) -> Result<(), DataError> {
        (**self).restore(state)
    }
}
