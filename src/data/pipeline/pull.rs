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
    /// Counters, in an order that the stage defines.
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
        counters: Vec<u64>,
        inputs: impl IntoIterator<Item = Input>,
    ) -> Self {
        let inputs = inputs.into_iter().map(Into::into).collect();
        Self { stage: stage.to_string(), counters, inputs, ..Self::default() }
    }

    /// Checks the kind of stage, the number of counters (`None`: any) and the number of inputs.
    pub(crate) fn expect(
        &self,
        stage: &str,
        counters: Option<usize>,
        inputs: usize,
    ) -> Result<(), DataError> {
        let fits = self.stage == stage
            && counters.is_none_or(|expected| expected == self.counters.len())
            && self.inputs.len() == inputs;
        if fits {
            return Ok(());
        }
        let reason = format!("expected the state of `{stage}`, found that of `{}`", self.stage);
        Err(DataError::State { reason })
    }
}

/// A stage that yields items on request.
pub(crate) trait Pull: Send {
    /// Type of the items.
    type Item;

    /// The next item; `None` at the end and for every later call.
    fn pull(&mut self) -> Result<Option<Self::Item>, DataError>;

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

    fn save(&self) -> StageState {
        (**self).save()
    }

    fn restore(&mut self, state: &StageState) -> Result<(), DataError> {
        (**self).restore(state)
    }
}
