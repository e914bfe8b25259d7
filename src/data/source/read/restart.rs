//! Places inside gzip files where decompressing can begin.

use std::sync::{Arc, Mutex, PoisonError};

use serde::{Deserialize, Serialize};

use super::pause::Pause;

/// A place inside a gzip file where decompressing can begin.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Restart {
    /// Decompressed bytes before it.
    pub(super) offset: u64,
    /// Bits of the file before it.
    pub(super) bit: u64,
    /// Decompressed bytes of its member before it, and their checksum.
    pub(super) member: (u64, u32),
    /// The state of its member's data.
    pub(super) pause: Pause,
    /// The checksum of the file's bytes behind it, by which the file is known again. Positions of
    /// former versions lack it.
    #[serde(default)]
    pub(super) ahead: Option<u32>,
}

impl Restart {
    /// Decompressed bytes before it.
    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    /// The byte of the file that it lies in.
    pub(super) fn byte(&self) -> u64 {
        self.bit / 8
    }
}

/// The last restart that a reader noted. It notes one when all before it is taken, so that nobody asks for
/// the one before any more.
#[derive(Clone, Default)]
pub(super) struct Restarts(Arc<Mutex<Option<Arc<Restart>>>>);

impl Restarts {
    /// Notes one, in place of the one before.
    pub(super) fn note(&self, restart: Arc<Restart>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(restart);
    }

    /// The last one.
    pub(super) fn last(&self) -> Option<Arc<Restart>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
