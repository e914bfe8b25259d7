//! Reads a remote file at any position: footers, indices, columns.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, stream};
use tokio::sync::mpsc::channel;

use super::Remote;
use super::client::wait;
use super::failure::Failure;
use super::limits::limits;
use super::stream::{Source, pump};
use crate::error::StorageError;

/// Maximum number of ranges that are requested at once.
const AT_ONCE: usize = 4;

/// A remote file in one state: ranges of another state are an error.
pub(crate) struct RemoteRanges {
    source: Arc<Source>,
    size: u64,
}

impl RemoteRanges {
    /// Reads the file's state.
    pub(crate) fn open(remote: Remote) -> Result<Self, StorageError> {
        let path = remote.path.clone();
        let version = wait(remote.stat());
        let sized = version.and_then(|version| match version.size {
            Some(size) => Ok((version, size)),
            None => Err(Failure::Permanent("the server does not tell its size".to_string())),
        });
        let (version, size) =
            sized.map_err(|failure| StorageError::of_failure("open", &path, failure))?;
        let source = Source { remote, version, ranged: true, limits: limits() };
        Ok(Self { source: Arc::new(source), size })
    }

    /// The file's size in bytes.
    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    /// Reads the bytes of each range, in their order; large ranges are requested in parts.
    pub(crate) fn read(&self, ranges: &[Range<u64>]) -> Result<Vec<Vec<u8>>, Failure> {
        let part_size = self.source.limits.part_size;
        let parts: Vec<(usize, Range<u64>)> = (ranges.iter().enumerate())
            .flat_map(|(index, range)| {
                let starts = (range.start..range.end).step_by(part_size as usize);
                let end = range.end;
                starts.map(move |start| (index, start..(start + part_size).min(end)))
            })
            .collect();
        let mut read: Vec<Vec<u8>> = vec![Vec::new(); ranges.len()];
        let fetched = stream::iter(parts)
            .map(|(index, range)| async move { Ok::<_, Failure>((index, self.part(range).await?)) })
            .buffered(AT_ONCE);
        let joined = fetched.try_for_each(|(index, bytes): (usize, Vec<u8>)| {
            match read[index].is_empty() {
                true => read[index] = bytes,
                false => read[index].extend_from_slice(&bytes),
            }
            futures::future::ok::<(), Failure>(())
        });
        wait(joined)?;
        Ok(read)
    }

    async fn part(&self, range: Range<u64>) -> Result<Vec<u8>, Failure> {
        let mut bytes = Vec::with_capacity((range.end - range.start) as usize);
        let (sender, mut chunks) = channel(1);
        let collect = async {
            while let Some(chunk) = chunks.recv().await {
                let chunk: Bytes = chunk?;
                bytes.extend_from_slice(&chunk);
            }
            Ok::<(), Failure>(())
        };
        let (collected, ()) = tokio::join!(collect, pump(self.source.clone(), range, None, sender));
        collected.map(|()| bytes)
    }
}
