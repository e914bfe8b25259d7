//! Fused maps of single examples: the same for one thread and for many.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::pull::{Pull, Pulled, Stage, StageState, Within};
use crate::error::DataError;
use crate::example::{Example, Origin};
use crate::preprocess::{ExamplePosition, MapStep};
use crate::random::StageSeed;
use crate::source::{BadRecordGuard, Record, RecordParser};

/// A map with its name and seed.
pub(crate) struct NamedStep {
    pub name: &'static str,
    pub seed: StageSeed,
    pub step: Box<dyn MapStep>,
}

/// A sequence of maps, a function of the item and its counter; shared by threads.
pub(crate) trait MapItems<In>: Send + Sync {
    /// The example, or `None` if a map drops it.
    fn apply(&self, item: In, counter: u64) -> Result<Option<Example>, DataError>;
}

/// Maps over examples.
pub(crate) struct ExampleMaps {
    pub task: String,
    pub steps: Vec<NamedStep>,
    /// Handles examples that a map cannot process.
    pub bad_records: BadRecordGuard,
}

impl MapItems<Example> for ExampleMaps {
    fn apply(&self, mut example: Example, counter: u64) -> Result<Option<Example>, DataError> {
        let origin = example.take_origin();
        for NamedStep { name, seed, step } in &self.steps {
            let mapped = step.apply(example, ExamplePosition { seed, counter });
            match mapped {
                Ok(Some(next)) => example = next,
                Ok(None) => return Ok(None),
                Err(reason) => {
                    let (task, step) = (self.task.clone(), name.to_string());
                    let place = place(origin.as_ref(), counter);
                    let error = DataError::Preprocess { task, step, place, reason };
                    skip(&self.bad_records, error, origin.as_ref(), counter)?;
                    return Ok(None);
                }
            }
        }
        Ok(Some(example.read_at(origin)))
    }
}

/// The name of an example in messages: its line, otherwise the number of examples read before it.
pub(super) fn place(origin: Option<&Origin>, counter: u64) -> String {
    origin.map_or_else(|| format!("example {}", counter + 1), Origin::to_string)
}

/// Passes the error on, or records an example that may be skipped.
pub(super) fn skip(
    bad_records: &BadRecordGuard,
    error: DataError,
    origin: Option<&Origin>,
    counter: u64,
) -> Result<(), DataError> {
    match origin {
        Some(origin) => bad_records.skip(error, origin.file.path.as_str(), origin.number),
        None => bad_records.skip(error, "", counter + 1),
    }
}

/// Parses records, then maps the examples.
pub(crate) struct RecordMaps {
    pub parser: RecordParser,
    pub maps: ExampleMaps,
}

impl MapItems<Record> for RecordMaps {
    fn apply(&self, record: Record, counter: u64) -> Result<Option<Example>, DataError> {
        let (file, number) = (record.file.clone(), record.number);
        match self.parser.parse(record) {
            Ok(Some(example)) => self.maps.apply(example, counter),
            Ok(None) => Ok(None),
            Err(error) => {
                self.maps.bad_records.skip(error, file.path.as_str(), number)?;
                Ok(None)
            }
        }
    }
}

/// Maps on the thread that pulls.
pub(crate) struct Map<In: Pull> {
    input: In,
    maps: Arc<dyn MapItems<In::Item>>,
    /// Items pulled.
    counter: u64,
}

impl<In: Pull> Map<In> {
    /// Applies `maps` to the items that `input` yields.
    pub(crate) fn new(input: In, maps: Arc<dyn MapItems<In::Item>>) -> Self {
        Self { input, maps, counter: 0 }
    }
}

impl<In: Pull> Pull for Map<In> {
    type Item = Example;

    fn pull(&mut self) -> Result<Option<Example>, DataError> {
        while let Some(item) = self.input.pull()? {
            self.counter += 1;
            if let Some(example) = self.maps.apply(item, self.counter - 1)? {
                return Ok(Some(example));
            }
        }
        Ok(None)
    }

    fn save(&self) -> StageState {
        StageState::new("map", &Pulled { counter: self.counter }, [self.input.save()])
    }

    fn restore(&mut self, state: &StageState) -> Result<(), DataError> {
        // A machine with other threads saves the state of the same maps as "parallel_map".
        if state.stage == "parallel_map" {
            let Within { counter, taken } = state.read("parallel_map", 1)?;
            self.counter = counter;
            self.input.restore(&state.inputs[0])?;
            for _ in 0..taken {
                self.pull()?;
            }
            return Ok(());
        }
        Pulled { counter: self.counter } = state.read("map", 1)?;
        self.input.restore(&state.inputs[0])
    }
}

/// Counts the examples that pass, so that the reader notices when there are none.
pub(crate) struct Count {
    pub input: Stage,
    pub produced: Arc<AtomicU64>,
}

impl Pull for Count {
    type Item = Example;

    fn pull(&mut self) -> Result<Option<Example>, DataError> {
        let example = self.input.pull()?;
        self.produced.fetch_add(u64::from(example.is_some()), Ordering::Relaxed);
        Ok(example)
    }

    fn save(&self) -> StageState {
        self.input.save()
    }

    fn restore(&mut self, state: &StageState) -> Result<(), DataError> {
        self.input.restore(state)
    }
}
