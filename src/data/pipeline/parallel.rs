//! Maps and steps over batches on many threads, in order.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};

use super::chunks::StepContext;
use super::map::place;
use super::map::{Map, MapItems};
use super::pool::Workers;
use super::pull::{Pull, Pulled, Stage, StageState, Within};
use crate::error::DataError;
use crate::example::Example;
use crate::preprocess::BatchStep;

/// Items that are sent to a thread at once: enough to make sending cheap, few enough that a
/// restored pipeline repeats little.
const CHUNK: usize = 64;
/// Chunks sent for each chunk that is yielded: two, so that the number of pending chunks soon
/// reaches its maximum.
const CHUNKS_AT_ONCE: usize = 2;
type Mapped = Result<Vec<Example>, DataError>;

/// Maps the items of a stage; most of the time is spent here, so threads do it if there are any.
pub(crate) fn mapped<In>(
    input: In,
    maps: Arc<dyn MapItems<In::Item>>,
    workers: Option<&Workers>,
) -> Stage
where
    In: Pull<Item: Send + 'static> + 'static,
{
    match workers {
        Some(workers) => Box::new(ParallelMap::new(input, maps, workers.clone())),
        None => Box::new(Map::new(input, maps)),
    }
}

/// A step over batches of the examples that a stage yields.
pub(super) fn batched(
    input: Stage,
    context: StepContext,
    num_examples: usize,
    step: Box<dyn BatchStep>,
    workers: Option<&Workers>,
) -> Stage {
    let workers = workers.cloned();
    Box::new(ParallelMap {
        stage: "batches",
        chunk: num_examples,
        workers,
        ..ParallelMap::of(input, Arc::new(Batches { context, step }))
    })
}

/// A function of a sequence of items and the counter of the first; shared by threads.
trait MapChunk<In>: Send + Sync {
    /// The examples made from the items.
    fn apply(&self, items: Vec<In>, counter: u64) -> Mapped;
}

/// Maps each item separately.
struct Each<In>(Arc<dyn MapItems<In>>);

impl<In> MapChunk<In> for Each<In> {
    fn apply(&self, items: Vec<In>, counter: u64) -> Mapped {
        let numbered = items.into_iter().zip(counter..);
        numbered.filter_map(|(item, counter)| self.0.apply(item, counter).transpose()).collect()
    }
}

/// A step that processes the items together.
struct Batches {
    context: StepContext,
    step: Box<dyn BatchStep>,
}

impl MapChunk<Example> for Batches {
    fn apply(&self, examples: Vec<Example>, counter: u64) -> Mapped {
        let origins: Vec<_> = examples.iter().map(|example| example.origin().cloned()).collect();
        self.step.apply(examples, &self.context.seed, counter).map_err(|(index, reason)| {
            let at = index.unwrap_or(0);
            let first = place(origins.get(at).and_then(Option::as_ref), counter + at as u64);
            let place = match (index, origins.len()) {
                (None, 2..) => format!("{} examples from {first} on", origins.len()),
                _ => first,
            };
            DataError::Python { task: self.context.task.clone(), place, reason }
        })
    }
}

/// A chunk that threads work on, and its position in the input.
struct Pending {
    counter: u64,
    input: StageState,
    done: Receiver<Mapped>,
}

/// The chunk whose examples are being yielded.
struct Current {
    counter: u64,
    input: StageState,
    examples: std::vec::IntoIter<Example>,
    taken: u64,
}

/// Maps chunks of items on threads, if there are any; yields the results in the order pulled.
pub(crate) struct ParallelMap<In: Pull> {
    /// The name of the stage in its state.
    stage: &'static str,
    /// Items that are mapped at once.
    chunk: usize,
    input: In,
    /// Items pulled.
    counter: u64,
    ended: bool,
    maps: Arc<dyn MapChunk<In::Item>>,
    workers: Option<Workers>,
    pending: VecDeque<Pending>,
    current: Option<Current>,
}

impl<In: Pull> ParallelMap<In>
where
    In::Item: Send + 'static,
{
    /// Applies `maps` to the items that `input` yields.
    pub(crate) fn new(input: In, maps: Arc<dyn MapItems<In::Item>>, workers: Workers) -> Self {
        Self { workers: Some(workers), ..Self::of(input, Arc::new(Each(maps))) }
    }

    fn of(input: In, maps: Arc<dyn MapChunk<In::Item>>) -> Self {
        let (stage, chunk, workers) = ("parallel_map", CHUNK, None);
        let (pending, current) = (VecDeque::new(), None);
        Self { stage, chunk, input, counter: 0, ended: false, maps, workers, pending, current }
    }

    /// Keeps the threads busy. The number of pending chunks grows with the number of yielded
    /// chunks: a stage below may make one item from many records, and the reader treats data that
    /// it repeats without any output as empty.
    fn fill(&mut self) -> Result<(), DataError> {
        let most = self.workers.as_ref().map_or(1, |workers| workers.max_pending);
        for _ in 0..CHUNKS_AT_ONCE {
            if self.ended || self.pending.len() >= most {
                break;
            }
            self.send_chunk()?;
        }
        Ok(())
    }

    /// Sends the next chunk to a thread.
    fn send_chunk(&mut self) -> Result<(), DataError> {
        let (counter, input) = (self.counter, self.input.save());
        let mut items = Vec::with_capacity(self.chunk.min(CHUNK));
        while items.len() < self.chunk && !self.ended {
            match self.input.pull()? {
                Some(item) => items.push(item),
                None => self.ended = true,
            }
        }
        if items.is_empty() {
            return Ok(());
        }
        self.counter += items.len() as u64;
        let (done, result) = sync_channel(1);
        let maps = self.maps.clone();
        let map = move || {
            // The receiver is gone when the pipeline is being dropped.
            let _ = done.send(maps.apply(items, counter));
        };
        match &self.workers {
            Some(workers) => workers.run(map),
            None => map(),
        }
        self.pending.push_back(Pending { counter, input, done: result });
        Ok(())
    }

    /// Makes the next chunk current; `false` at the end.
    fn next_chunk(&mut self) -> Result<bool, DataError> {
        self.fill()?;
        let Some(Pending { counter, input, done }) = self.pending.pop_front() else {
            return Ok(false);
        };
        let examples = done.recv().expect("a thread of the data pipeline panicked")?.into_iter();
        self.current = Some(Current { counter, input, examples, taken: 0 });
        Ok(true)
    }
}

impl<In: Pull> Pull for ParallelMap<In>
where
    In::Item: Send + 'static,
{
    type Item = Example;

    fn pull(&mut self) -> Result<Option<Example>, DataError> {
        loop {
            if let Some(current) = &mut self.current
                && let Some(example) = current.examples.next()
            {
                current.taken += 1;
                return Ok(Some(example));
            }
            if !self.next_chunk()? {
                return Ok(None);
            }
        }
    }

    /// Saves the position of the current chunk, and the number of its examples already taken.
    fn save(&self) -> StageState {
        let (counters, input) = match &self.current {
            Some(Current { counter, taken, input, .. }) => {
                (Within { counter: *counter, taken: *taken }, input.clone())
            }
            None => (Within { counter: self.counter, taken: 0 }, self.input.save()),
        };
        StageState::new(self.stage, &counters, [input])
    }

    fn restore(&mut self, state: &StageState) -> Result<(), DataError> {
        if state.stage == "map" && self.stage == "parallel_map" {
            Pulled { counter: self.counter } = state.read("map", 1)?;
            return self.input.restore(&state.inputs[0]);
        }
        let Within { counter, taken } = state.read(self.stage, 1)?;
        self.counter = counter;
        self.input.restore(&state.inputs[0])?;
        for _ in 0..taken {
            self.pull()?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroUsize;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// Yields empty examples forever and counts them.
    struct Endless(Arc<AtomicUsize>);

    impl Pull for Endless {
        type Item = Example;

        fn pull(&mut self) -> Result<Option<Example>, DataError> {
            self.0.fetch_add(1, Ordering::Relaxed);
            Ok(Some(Example::default()))
        }

        fn save(&self) -> StageState {
            StageState::default()
        }

        fn restore(&mut self, _: &StageState) -> Result<(), DataError> {
            Ok(())
        }
    }

    struct Same;

    impl MapItems<Example> for Same {
        fn apply(&self, item: Example, _: u64) -> Result<Option<Example>, DataError> {
            Ok(Some(item))
        }
    }

    #[test]
    fn what_is_pulled_ahead_grows_with_what_is_handed_on() {
        let (pulled, threads) = (Arc::new(AtomicUsize::new(0)), NonZeroUsize::new(3).unwrap());
        let workers = Workers::start(threads, 1);
        let most = workers.max_pending;
        let mut stage = ParallelMap::new(Endless(pulled.clone()), Arc::new(Same), workers);
        for taken in 1..=8 {
            for _ in 0..CHUNK {
                stage.pull().unwrap().expect("it is endless");
            }
            let ahead = pulled.load(Ordering::Relaxed) / CHUNK - taken;
            assert_eq!(ahead, taken.min(most - 1), "after {taken} chunks");
        }
    }
}
