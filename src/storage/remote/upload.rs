//! A file being written elsewhere. Small ones go in one request, larger ones in parts; neither is
//! seen before it is complete.

use std::io::{self, Write};

use bytes::Bytes;
use object_store::WriteMultipart;

use super::Remote;
use super::client::{runtime, wait};
use super::failure::Failure;
use super::limits::limits;
use super::retry::retry;
use crate::storage::error::StorageError;
use crate::storage::slow::Transfer;

/// Bytes of a part; stores take 10,000 parts.
const PART: usize = 16 << 20;

/// Parts that are on their way at once.
const AT_ONCE: usize = 4;

/// A file being written elsewhere. Dropped before [`Upload::finish`], it leaves nothing there.
pub(in crate::storage) struct Upload {
    remote: Remote,
    buffer: Vec<u8>,
    parts: Option<WriteMultipart>,
    sent: u64,
    transfer: Transfer,
}

impl Upload {
    /// Starts with `bytes`; nothing is sent before there is a part's worth.
    pub(in crate::storage) fn new(remote: Remote, bytes: Vec<u8>) -> Self {
        let transfer = Transfer::new(format!("sending {}", remote.path), None);
        Self { remote, buffer: bytes, parts: None, sent: 0, transfer }
    }

    /// Sends what is left and makes the file appear.
    pub(in crate::storage) fn finish(&mut self) -> Result<(), StorageError> {
        let rest = Bytes::from(std::mem::take(&mut self.buffer));
        let Some(mut parts) = self.parts.take() else {
            return self.remote.put(&rest);
        };
        let finished = wait(async {
            parts.put(rest);
            parts.finish().await
        });
        finished.map(|_| ()).map_err(|error| self.failed(error.into()))
    }

    fn send(&mut self) -> Result<(), Failure> {
        let bytes = Bytes::from(std::mem::replace(&mut self.buffer, Vec::with_capacity(PART)));
        let _entered = runtime().enter();
        if self.parts.is_none() {
            let remote = &self.remote;
            let upload = wait(retry(limits(), || remote.store.upload(&remote.key)))?;
            self.parts = Some(WriteMultipart::new_with_chunk_size(upload, PART));
        }
        let parts = self.parts.as_mut().expect("started above");
        wait(parts.wait_for_capacity(AT_ONCE))?;
        self.sent += bytes.len() as u64;
        self.transfer.reached(self.sent);
        parts.put(bytes);
        Ok(())
    }

    fn failed(&self, failure: Failure) -> StorageError {
        StorageError::of_failure("write", &self.remote.path, failure)
    }
}

impl Write for Upload {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.buffer.extend_from_slice(bytes);
        if self.buffer.len() >= PART {
            self.send().map_err(|failure| self.failed(failure))?;
        }
        Ok(bytes.len())
    }

    /// Nothing is seen before the end anyway.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        if let Some(parts) = self.parts.take() {
            // Best effort: stores drop what nobody completed after some days.
            let _ = wait(parts.abort());
        }
    }
}
