//! Batches that a separate thread makes ahead of time.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use serde::{Deserialize, Serialize};

use super::convert::{Batch, FeatureConverter};
use super::error::DataError;
use super::identity::{DataIdentity, of_checkpoint};
use super::pipeline::StageState;
use super::source::{BadPlaces, BadRecords};
use super::streams::{RowDeal, Share, Streams};

/// The positions of streams by their index.
type Positions = Arc<BTreeMap<usize, StageState>>;

/// A position in a data set: after the last batch handed out. Kept in checkpoints.
///
/// It is a few counters for each stream, whatever the size of the buffers: a restart fills the
/// buffers again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DatasetState {
    /// The data; a state fits only a run on the same data. Older checkpoints call them `stream`.
    #[serde(alias = "stream", deserialize_with = "of_checkpoint")]
    pub data: DataIdentity,
    /// The seed in use, which a run that sets no seed takes over.
    pub seed: u64,
    /// Batches handed out since the data began.
    pub batches: u64,
    /// The stream that gives the first row of the next batch, apart from the rows that all streams
    /// give; other than 0 only in a run that continued with a batch size that is not divisible by
    /// its number of streams.
    #[serde(default, skip_serializing_if = "is_first")]
    pub next_stream: usize,
    /// The positions of the streams that this host reads; none at the beginning.
    pub positions: Positions,
    /// The records skipped by then, those of batches made ahead included; they are read again and count once.
    #[serde(default, skip_serializing_if = "BadPlaces::is_empty")]
    pub bad_records: BadPlaces,
}

impl DatasetState {
    /// Merges the positions of all hosts, each of which knows only its own streams; any number of
    /// hosts can continue from the result.
    ///
    /// # Errors
    /// Positions of other data, or after another number of batches.
    pub fn merged(hosts: impl IntoIterator<Item = Self>) -> Result<Self, DataError> {
        let mut hosts = hosts.into_iter();
        let no_host = || DataError::State { reason: "no host saved one".to_string() };
        let mut merged = hosts.next().ok_or_else(no_host)?;
        let mut positions = Arc::unwrap_or_clone(merged.positions);
        for host in hosts {
            if (&host.data, host.seed) != (&merged.data, merged.seed) {
                let reason = format!("hosts read `{}` and `{}`", merged.data, host.data);
                return Err(DataError::State { reason });
            }
            if (host.batches, host.next_stream) != (merged.batches, merged.next_stream) {
                let (a, b) = (merged.batches, host.batches);
                let reason = format!("hosts saved it after {a} and after {b} batches");
                return Err(DataError::State { reason });
            }
            positions.extend(Arc::unwrap_or_clone(host.positions));
            merged.bad_records.extend(&host.bad_records);
        }
        merged.positions = Arc::new(positions);
        Ok(merged)
    }
}

fn is_first(stream: &usize) -> bool {
    *stream == 0
}

/// The settings for making batches from rows.
#[derive(Clone, Debug)]
pub(super) struct Batching {
    /// Rows of a whole batch on this host.
    pub rows_of_host: usize,
    /// The assignment of the next batch's rows to streams.
    pub deal: RowDeal,
    pub drop_remainder: bool,
    pub prefetch: NonZeroUsize,
    /// Counts the records that sources skip.
    pub bad_records: BadRecords,
}

/// A batch and the positions after it.
struct Prefetched {
    batch: Batch,
    positions: Positions,
}

/// The batches of a data set. Dropping it ends its threads.
pub struct BatchIterator {
    state: DatasetState,
    deal: RowDeal,
    notices: Vec<String>,
    bad_records: BadRecords,
    /// A batch that [`BatchIterator::wait`] has taken from the queue.
    waiting: Option<Prefetched>,
    /// `None` once the data have ended; dropped first, which ends the thread.
    queue: Option<Receiver<Result<Prefetched, DataError>>>,
    thread: Option<JoinHandle<()>>,
}

impl BatchIterator {
    /// Starts making batches of the streams' rows, which are at `state`.
    pub(super) fn start(
        streams: Streams,
        converter: FeatureConverter,
        batching: Batching,
        state: DatasetState,
        notices: Vec<String>,
    ) -> Result<Self, DataError> {
        let (bad_records, deal) = (batching.bad_records.clone(), batching.deal);
        let (sender, queue) = sync_channel(batching.prefetch.get());
        let mut producer = Producer { streams, converter, batching };
        let thread = std::thread::Builder::new()
            .name("data".to_string())
            .spawn(move || producer.run(&sender))
            .map_err(|error| DataError::Config(format!("cannot start a thread: {error}")))?;
        let (queue, thread) = (Some(queue), Some(thread));
        Ok(Self { state, deal, notices, bad_records, waiting: None, queue, thread })
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
    pub fn next_batch(&mut self) -> Result<Option<Batch>, DataError> {
        let next = match self.waiting.take() {
            Some(next) => Some(next),
            None => self.receive()?,
        };
        Ok(next.map(|next| {
            self.state.positions = next.positions;
            self.state.batches += 1;
            self.deal = self.deal.next();
            self.state.next_stream = self.deal.next_stream;
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
        DatasetState { bad_records: self.bad_records.places(), ..self.state.clone() }
    }

    /// Records skipped since the data began, those of batches made ahead included.
    pub fn num_bad_records(&self) -> u64 {
        self.bad_records.count()
    }

    /// Notices for the user about this data set, each line once.
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
    streams: Streams,
    converter: FeatureConverter,
    batching: Batching,
}

impl Producer {
    /// Makes batches until the end, an error, or until the receiver is dropped.
    fn run(&mut self, sender: &SyncSender<Result<Prefetched, DataError>>) {
        loop {
            let next = self.next_batch().transpose();
            let Some(next) = next else { return };
            let ended = next.is_err();
            // The receiver is gone when the iterator is being dropped.
            if sender.send(next).is_err() || ended {
                return;
            }
        }
    }

    fn next_batch(&mut self) -> Result<Option<Prefetched>, DataError> {
        let Batching { rows_of_host, drop_remainder, .. } = self.batching;
        let Share { rows, is_whole, positions } = self.streams.next_share()?;
        if !is_whole && (drop_remainder || rows.is_empty()) {
            return Ok(None);
        }
        let mut batch = self.converter.empty_batch(rows_of_host);
        rows.iter().for_each(|row| self.converter.push_row(&mut batch, row));
        Ok(Some(Prefetched { batch, positions: Arc::new(positions) }))
    }
}
