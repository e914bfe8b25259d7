//! Batches, made ahead of time on a thread of their own.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use serde::{Deserialize, Serialize};

use super::convert::{EncDecBatch, EncDecFeatureConverter, Rows};
use super::error::DataError;
use super::pipeline::{Pull, StageState};

/// Batches between two saved positions. A position copies the shuffle buffer, so one for each batch
/// would cost more than repeating a few batches on restart.
const BATCHES_PER_SNAPSHOT: u64 = 8;

/// A position in a stream of batches: after the last one handed out. Kept in checkpoints.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DatasetState {
    /// What the stream is made of; a state fits only a run with the same.
    pub stream: String,
    /// The seed in use, which a run without a seed of its own takes over.
    pub seed: u64,
    /// A position in the pipeline.
    #[serde(with = "shared")]
    pub snapshot: Arc<StageState>,
    /// Batches handed out since.
    pub batches: u64,
}

/// How rows become batches.
#[derive(Clone, Debug)]
pub(super) struct Batching {
    pub rows_per_batch: usize,
    pub drop_remainder: bool,
    pub prefetch: NonZeroUsize,
}

/// A batch and the position after it.
struct Prefetched {
    batch: EncDecBatch,
    snapshot: Arc<StageState>,
    batches: u64,
}

/// The batches of a data set. Dropping it ends its threads.
pub struct BatchIterator {
    state: DatasetState,
    notices: Vec<String>,
    /// A batch that [`BatchIterator::wait`] has taken from the queue.
    waiting: Option<Prefetched>,
    /// `None` once the stream has ended; dropped first, which ends the thread.
    queue: Option<Receiver<Result<Prefetched, DataError>>>,
    thread: Option<JoinHandle<()>>,
}

impl BatchIterator {
    /// Starts making batches of `rows`, at `resume` if given.
    pub(super) fn start(
        mut rows: Rows,
        converter: EncDecFeatureConverter,
        batching: Batching,
        mut state: DatasetState,
        notices: Vec<String>,
    ) -> Result<Self, DataError> {
        if !state.snapshot.stage.is_empty() {
            rows.restore(&state.snapshot)?;
        } else {
            state.snapshot = Arc::new(rows.save());
        }
        let (sender, queue) = sync_channel(batching.prefetch.get());
        let skip = state.batches;
        let mut producer = Producer { rows, converter, batching, snapshot: state.snapshot.clone() };
        let thread = std::thread::Builder::new()
            .name("data".to_string())
            .spawn(move || producer.run(skip, &sender))
            .map_err(|error| DataError::Config(format!("cannot start a thread: {error}")))?;
        Ok(Self { state, notices, waiting: None, queue: Some(queue), thread: Some(thread) })
    }

    /// Waits until the next batch is made, so that mistakes in the data come to light.
    pub fn wait(&mut self) -> Result<(), DataError> {
        if self.waiting.is_none() {
            self.waiting = self.receive()?;
        }
        Ok(())
    }

    /// The next batch; `None` at the end.
    ///
    /// After an error or the end, every call gives `None`.
    pub fn next_batch(&mut self) -> Result<Option<EncDecBatch>, DataError> {
        let next = match self.waiting.take() {
            Some(next) => Some(next),
            None => self.receive()?,
        };
        Ok(next.map(|next| {
            self.state.snapshot = next.snapshot;
            self.state.batches = next.batches;
            next.batch
        }))
    }

    fn receive(&mut self) -> Result<Option<Prefetched>, DataError> {
        let Some(queue) = &self.queue else { return Ok(None) };
        match queue.recv() {
            Ok(Ok(next)) => Ok(Some(next)),
            Ok(Err(error)) => {
                self.queue = None;
                Err(error)
            }
            Err(_) => {
                self.queue = None;
                self.join();
                Ok(None)
            }
        }
    }

    /// The position after the last batch handed out.
    pub fn state(&self) -> DatasetState {
        self.state.clone()
    }

    /// What the user should know about this data set, each line once.
    pub fn notices(&self) -> &[String] {
        &self.notices
    }

    /// Passes on a panic of the thread, which must not look like the end of the data.
    fn join(&mut self) {
        if let Some(thread) = self.thread.take()
            && let Err(panic) = thread.join()
            && !std::thread::panicking()
        {
            std::panic::resume_unwind(panic);
        }
    }
}

impl Drop for BatchIterator {
    fn drop(&mut self) {
        self.queue = None;
        self.join();
    }
}

struct Producer {
    rows: Rows,
    converter: EncDecFeatureConverter,
    batching: Batching,
    snapshot: Arc<StageState>,
}

impl Producer {
    /// Makes batches until the end, an error, or nobody waits for them.
    fn run(&mut self, skip: u64, sender: &SyncSender<Result<Prefetched, DataError>>) {
        if let Err(error) = self.produce(skip, sender) {
            // Nobody waits for it when the iterator is being dropped.
            let _ = sender.send(Err(error));
        }
    }

    fn produce(
        &mut self,
        skip: u64,
        sender: &SyncSender<Result<Prefetched, DataError>>,
    ) -> Result<(), DataError> {
        for _ in 0..skip {
            self.batch()?;
        }
        let mut batches = skip;
        while let Some(batch) = self.batch()? {
            batches += 1;
            if batches >= BATCHES_PER_SNAPSHOT {
                self.snapshot = Arc::new(self.rows.save());
                batches = 0;
            }
            let snapshot = self.snapshot.clone();
            if sender.send(Ok(Prefetched { batch, snapshot, batches })).is_err() {
                break;
            }
        }
        Ok(())
    }

    fn batch(&mut self) -> Result<Option<EncDecBatch>, DataError> {
        let rows = self.batching.rows_per_batch;
        let mut batch = self.converter.empty_batch(rows);
        while batch.rows < rows {
            match self.rows.pull()? {
                Some(row) => self.converter.push_row(&mut batch, &row),
                None => break,
            }
        }
        let is_whole = batch.rows == rows;
        let keeps_rest = !self.batching.drop_remainder && batch.rows > 0;
        Ok((is_whole || keeps_rest).then_some(batch))
    }
}

/// A shared position is written as the position itself.
mod shared {
    use std::sync::Arc;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use crate::data::pipeline::StageState;

    pub fn serialize<S: Serializer>(state: &Arc<StageState>, to: S) -> Result<S::Ok, S::Error> {
        StageState::serialize(state, to)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Arc<StageState>, D::Error> {
        StageState::deserialize(from).map(Arc::new)
    }
}
