//! The rows of each batch, made by several streams side by side.
//!
//! A data set that repeats is dealt out to streams, each of its tasks by file where there are enough files, else by
//! record. Each stream is a pipeline of its own and gives the same number of rows to every global
//! batch, so the batch at a step is the same set of rows however many threads or hosts there are. A
//! host runs the streams that its rows come from and opens no other stream's files; its streams that
//! share the records of a few files read each of them once. Without shuffling a stream keeps the order
//! of its files. Data that end are one stream.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::ops::Range;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use super::convert::{Row, Rows};
use super::error::DataError;
use super::pipeline::{Pull, StageState};

/// Streams at most. As many files are open as SeqIO's interleaving opens.
const MAX_STREAMS: usize = 16;
/// A stream is worth its while from here on; smaller data keep the order that SeqIO has on one host.
const BYTES_PER_STREAM: u64 = 256 << 10;
/// Bytes from which on more of them make no difference.
pub(super) const ENOUGH_BYTES: u64 = BYTES_PER_STREAM * MAX_STREAMS as u64;

/// The numbers of streams that there can be.
pub(super) fn stream_counts() -> impl DoubleEndedIterator<Item = usize> {
    1..=MAX_STREAMS
}

/// The number of streams of a data set that repeats: a function of its bytes and the batch size alone.
/// The number of hosts divides the batch size too, and is a power of two more often than not: the more often
/// two divides the number of streams, the fewer streams are those of several hosts.
pub(super) fn num_streams(batch_size: usize, num_bytes: u64) -> usize {
    let fits = |count: &usize| {
        batch_size.is_multiple_of(*count) && *count as u64 * BYTES_PER_STREAM <= num_bytes
    };
    let counts = stream_counts().filter(fits);
    counts.max_by_key(|count| (count.trailing_zeros(), *count)).unwrap_or(1)
}

/// One stream, and what this host takes of it.
pub(super) struct Stream {
    pub index: usize,
    pub rows: Rows,
    /// The rows of the stream's share of a batch that are this host's.
    pub mine: Range<usize>,
}

/// The streams that a host's rows come from, each with its range of its `rows_per_stream`.
pub(super) fn streams_of_host(
    rows_of_host: Range<usize>,
    rows_per_stream: usize,
) -> Vec<(usize, Range<usize>)> {
    let first = rows_of_host.start / rows_per_stream;
    let last = (rows_of_host.end - 1) / rows_per_stream;
    let within = |row: usize, stream: usize| {
        row.saturating_sub(stream * rows_per_stream).min(rows_per_stream)
    };
    (first..=last)
        .map(|stream| {
            (stream, within(rows_of_host.start, stream)..within(rows_of_host.end, stream))
        })
        .collect()
}

/// This host's rows of a batch, and the streams' positions after it.
pub(super) struct Share {
    pub rows: Vec<Row>,
    /// Rows of the streams that ran, of all hosts.
    pub num_rows: usize,
    pub positions: BTreeMap<usize, StageState>,
}

/// What one stream gives to one batch.
struct Chunk {
    rows: Vec<Row>,
    num_rows: usize,
    position: StageState,
}

impl Stream {
    /// The stream's rows of the next batch; fewer at its end.
    fn chunk(&mut self, rows_per_stream: usize) -> Result<Chunk, DataError> {
        let (mut rows, mut num_rows) = (Vec::with_capacity(self.mine.len()), 0);
        while num_rows < rows_per_stream
            && let Some(row) = self.rows.pull()?
        {
            if self.mine.contains(&num_rows) {
                rows.push(row);
            }
            num_rows += 1;
        }
        Ok(Chunk { rows, num_rows, position: self.rows.save() })
    }
}

/// Streams that are run here or on threads.
pub(super) enum Streams {
    /// On the thread that asks.
    Here { streams: Vec<Stream>, rows_per_stream: usize },
    /// On threads of their own.
    Threads(Threads),
}

/// The threads' ends of the queues, in the order of the streams.
pub(super) struct Threads {
    queues: Vec<(usize, Receiver<Result<Chunk, DataError>>)>,
    threads: Vec<JoinHandle<()>>,
}

impl Streams {
    /// Deals the streams out to `num_threads`, which work `ahead` batches ahead.
    pub(super) fn start(
        streams: Vec<Stream>,
        rows_per_stream: usize,
        num_threads: Option<NonZeroUsize>,
        ahead: NonZeroUsize,
    ) -> Result<Self, DataError> {
        let num_threads = num_threads.map_or(0, NonZeroUsize::get).min(streams.len());
        if num_threads == 0 || streams.len() == 1 {
            return Ok(Self::Here { streams, rows_per_stream });
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
            let run = move || work(&mut dealt, rows_per_stream);
            let spawned = std::thread::Builder::new().name("data stream".to_string()).spawn(run);
            spawned.map_err(|error| DataError::Config(format!("cannot start a thread: {error}")))
        };
        let threads = dealt.into_iter().map(spawn).collect::<Result<_, _>>()?;
        Ok(Self::Threads(Threads { queues, threads }))
    }

    /// This host's share of the next batch.
    pub(super) fn next_share(&mut self) -> Result<Share, DataError> {
        let mut share = Share { rows: Vec::new(), num_rows: 0, positions: BTreeMap::new() };
        let mut add = |index, chunk: Chunk| {
            share.rows.extend(chunk.rows);
            share.num_rows += chunk.num_rows;
            share.positions.insert(index, chunk.position);
        };
        match self {
            Self::Here { streams, rows_per_stream } => {
                for stream in streams {
                    add(stream.index, stream.chunk(*rows_per_stream)?);
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

/// Makes chunks for each of a thread's streams in turn, until nobody waits for them.
fn work(streams: &mut [(Stream, SyncSender<Result<Chunk, DataError>>)], rows_per_stream: usize) {
    loop {
        for (stream, sender) in &mut *streams {
            let chunk = stream.chunk(rows_per_stream);
            let ended = chunk.is_err();
            if sender.send(chunk).is_err() || ended {
                return;
            }
        }
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        // Threads end when nobody listens any more.
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
        assert_eq!(streams_of_host(0..8, 2), [(0, 0..2), (1, 0..2), (2, 0..2), (3, 0..2)]);
        assert_eq!(streams_of_host(4..8, 2), [(2, 0..2), (3, 0..2)]);
        assert_eq!(streams_of_host(2..4, 8), [(0, 2..4)]);
        assert_eq!(streams_of_host(3..6, 4), [(0, 3..4), (1, 0..2)]);
    }
}
