//! The rows of each batch, made by several parallel streams.
//!
//! A data set that repeats is divided among streams: each of its tasks by file if there are enough
//! files, otherwise by record. Each stream is a separate pipeline and gives the same number of rows
//! to every global batch (one more or less if a run continues with another batch size), so the
//! batch at a step is the same set of rows for any number of threads and hosts. A host runs the
//! streams that its rows come from and opens no other stream's files; its streams that share the
//! records of a few files read each of these files once. Without shuffling a stream keeps the order
//! of its files. Data that end, or whose batches end with a pass, are one stream. With `DatasetConfig.file_parts` each part of
//! the files is a stream.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroUsize;
use std::ops::{Range, RangeInclusive};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use super::convert::Row;
use super::error::DataError;
use super::pipeline::{Pull, StageState};

/// Maximum number of streams. SeqIO's interleaving opens the same number of files.
const MAX_STREAMS: usize = 16;
/// Minimum size for each stream; smaller data keep the order that SeqIO has on one host.
const BYTES_PER_STREAM: u64 = 256 << 10;
/// Number of bytes from which more bytes do not change the number of streams.
pub(super) const ENOUGH_BYTES: u64 = BYTES_PER_STREAM * MAX_STREAMS as u64;

/// The possible numbers of streams.
pub(super) fn stream_counts() -> RangeInclusive<usize> {
    1..=MAX_STREAMS
}

/// The number of streams of a data set that repeats: a function of its bytes and the batch size
/// alone. The number of hosts divides the batch size too, and is usually a power of two: the more
/// factors of two the number of streams has, the fewer streams are shared by several hosts.
pub(super) fn num_streams(batch_size: usize, num_bytes: u64) -> usize {
    let fits = |count: &usize| {
        batch_size.is_multiple_of(*count) && *count as u64 * BYTES_PER_STREAM <= num_bytes
    };
    let counts = stream_counts().filter(fits);
    counts.max_by_key(|count| (count.trailing_zeros(), *count)).unwrap_or(1)
}

/// The distribution of a batch's rows over the streams: rows are dealt out one by one, from batch
/// to batch, and the rows of each stream are then placed side by side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RowDeal {
    pub batch_size: usize,
    pub num_streams: usize,
    /// The stream that gets the first row of the next batch; 0 if the batch size is divisible by
    /// the number of streams.
    pub next_stream: usize,
}

impl RowDeal {
    /// The distribution of the batch after this one.
    pub fn next(self) -> Self {
        Self { next_stream: (self.next_stream + self.batch_size) % self.num_streams, ..self }
    }

    /// The rows of the next batch that a stream gives.
    pub fn rows(&self, stream: usize) -> Range<usize> {
        let start = (0..stream).map(|before| self.num_rows(before)).sum();
        start..start + self.num_rows(stream)
    }

    fn num_rows(&self, stream: usize) -> usize {
        let turn = (stream + self.num_streams - self.next_stream) % self.num_streams;
        let has_more = turn < self.batch_size % self.num_streams;
        self.batch_size / self.num_streams + usize::from(has_more)
    }

    /// The streams from which a host's rows of any batch come.
    pub fn streams_of(self, rows_of_host: &Range<usize>) -> Vec<usize> {
        let mut found = BTreeSet::new();
        let mut deal = self;
        loop {
            let is_mine = |stream: &usize| !overlap(&deal.rows(*stream), rows_of_host).is_empty();
            found.extend((0..self.num_streams).filter(is_mine));
            deal = deal.next();
            if deal == self {
                return found.into_iter().collect();
            }
        }
    }
}

/// The intersection of `rows` and `others`.
fn overlap(rows: &Range<usize>, others: &Range<usize>) -> Range<usize> {
    rows.start.max(others.start)..rows.end.min(others.end)
}

/// One stream, and the part of it that this host reads.
pub(super) struct Stream {
    pub index: usize,
    pub rows: Box<dyn Pull<Item = Row>>,
    /// The distribution of the next batch's rows.
    pub deal: RowDeal,
    /// The rows of a batch that belong to this host.
    pub rows_of_host: Range<usize>,
    /// The training step of the next batch.
    pub step: u64,
}

/// This host's rows of a batch, and the streams' positions after it.
pub(super) struct Share {
    pub rows: Vec<Row>,
    /// Whether no stream that ran has ended.
    pub is_whole: bool,
    pub positions: BTreeMap<usize, StageState>,
}

/// The rows that one stream gives to one batch.
struct Chunk {
    rows: Vec<Row>,
    is_whole: bool,
    position: StageState,
}

impl Stream {
    /// The stream's rows of the next batch; fewer at its end.
    fn chunk(&mut self) -> Result<Chunk, DataError> {
        let dealt = self.deal.rows(self.index);
        let mine = overlap(&dealt, &self.rows_of_host);
        self.deal = self.deal.next();
        self.rows.begin_step(self.step);
        self.step += 1;
        let (mut rows, mut next) = (Vec::with_capacity(mine.len()), dealt.start);
        while next < dealt.end
            && let Some(row) = self.rows.pull()?
        {
            if mine.contains(&next) {
                rows.push(row);
            }
            next += 1;
        }
        Ok(Chunk { rows, is_whole: next == dealt.end, position: self.rows.save() })
    }
}

/// Streams that are run here or on threads.
pub(super) enum Streams {
    /// Streams on the calling thread.
    Here(Vec<Stream>),
    /// Streams on separate threads.
    Threads(Threads),
}

/// The threads' ends of the queues, in the order of the streams.
pub(super) struct Threads {
    queues: Vec<(usize, Receiver<Result<Chunk, DataError>>)>,
    threads: Vec<JoinHandle<()>>,
}

impl Streams {
    /// Divides the streams among `num_threads`, which work `ahead` batches ahead.
    pub(super) fn start(
        streams: Vec<Stream>,
        num_threads: Option<NonZeroUsize>,
        ahead: NonZeroUsize,
    ) -> Result<Self, DataError> {
        let num_threads = num_threads.map_or(0, NonZeroUsize::get).min(streams.len());
        if num_threads == 0 || streams.len() == 1 {
            return Ok(Self::Here(streams));
        }
        let mut queues = Vec::new();
        let mut dealt: Vec<Vec<(Stream, SyncSender<_>)>> =
            (0..num_threads).map(|_| Vec::new()).collect();
        for (i, stream) in streams.into_iter().enumerate() {
            let (sender, queue) = sync_channel(ahead.get());
            queues.push((stream.index, queue));
            dealt[i % num_threads].push((stream, sender));
        }
        let spawn = |mut dealt: Vec<_>| {
            let run = move || work(&mut dealt);
            let spawned = std::thread::Builder::new().name("data stream".to_string()).spawn(run);
            spawned.map_err(|error| DataError::Config(format!("cannot start a thread: {error}")))
        };
        let threads = dealt.into_iter().map(spawn).collect::<Result<_, _>>()?;
        Ok(Self::Threads(Threads { queues, threads }))
    }

    /// This host's share of the next batch.
    pub(super) fn next_share(&mut self) -> Result<Share, DataError> {
        let mut share = Share { rows: Vec::new(), is_whole: true, positions: BTreeMap::new() };
        let mut add = |index, chunk: Chunk| {
            share.rows.extend(chunk.rows);
            share.is_whole &= chunk.is_whole;
            share.positions.insert(index, chunk.position);
        };
        match self {
            Self::Here(streams) => {
                for stream in streams {
                    add(stream.index, stream.chunk()?);
                }
            }
            Self::Threads(Threads { queues, .. }) => {
                for (index, queue) in queues {
                    let chunk = queue.recv().expect("a thread of the data pipeline panicked");
                    add(*index, chunk?);
                }
            }
        }
        Ok(share)
    }
}

/// Makes chunks for each of a thread's streams in turn, until the receiver is dropped.
fn work(streams: &mut [(Stream, SyncSender<Result<Chunk, DataError>>)]) {
    loop {
        for (stream, sender) in &mut *streams {
            let chunk = stream.chunk();
            let ended = chunk.is_err();
            if sender.send(chunk).is_err() || ended {
                return;
            }
        }
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        // Threads end when their receivers are gone.
        self.queues.clear();
        for thread in self.threads.drain(..) {
            // A panic was reported when it happened.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_depend_on_data_and_batch_size() {
        for (batch_size, num_bytes, expected) in [
            (128, ENOUGH_BYTES, 16),
            (128, u64::MAX, 16),
            (128, ENOUGH_BYTES - 1, 8),
            (128, 2 * BYTES_PER_STREAM, 2),
            (128, 2 * BYTES_PER_STREAM - 1, 1),
            (128, 0, 1),
            (100, ENOUGH_BYTES, 4),
            (1000, ENOUGH_BYTES, 8),
            (14, ENOUGH_BYTES, 14),
            (96, ENOUGH_BYTES, 16),
            (24, ENOUGH_BYTES, 8),
            (12, ENOUGH_BYTES, 12),
            (7, ENOUGH_BYTES, 7),
            (17, ENOUGH_BYTES, 1),
        ] {
            assert_eq!(num_streams(batch_size, num_bytes), expected, "{batch_size} {num_bytes}");
        }
    }

    #[test]
    fn hosts_take_contiguous_rows_and_run_only_their_streams() {
        let deal = |batch_size, num_streams| RowDeal { batch_size, num_streams, next_stream: 0 };
        assert_eq!(deal(8, 4).streams_of(&(0..8)), [0, 1, 2, 3]);
        assert_eq!(deal(8, 4).streams_of(&(4..8)), [2, 3]);
        assert_eq!(deal(8, 1).streams_of(&(2..4)), [0]);
        assert_eq!(deal(8, 2).streams_of(&(3..6)), [0, 1]);
        // The second stream's first row is the fourth of a batch, or the third.
        assert_eq!(deal(5, 2).streams_of(&(0..2)), [0]);
        assert_eq!(deal(5, 2).streams_of(&(0..3)), [0, 1]);
    }

    #[test]
    fn rows_are_dealt_out_evenly_whatever_the_batch_size() {
        for (batch_size, num_streams) in [(8, 4), (6, 4), (3, 4), (1, 16), (100, 16)] {
            let mut deal = RowDeal { batch_size, num_streams, next_stream: 0 };
            let mut given = vec![0; num_streams];
            for batch in 1..=num_streams {
                let rows = (0..num_streams).flat_map(|stream| deal.rows(stream));
                assert_eq!(rows.collect::<Vec<_>>(), (0..batch_size).collect::<Vec<_>>());
                (0..num_streams).for_each(|stream| given[stream] += deal.rows(stream).len());
                deal = deal.next();
                let total = batch * batch_size;
                let fair = [total / num_streams, total.div_ceil(num_streams)];
                assert!(given.iter().all(|rows| fair.contains(rows)), "{given:?}");
            }
            assert_eq!(deal.next_stream, 0);
        }
    }
}
