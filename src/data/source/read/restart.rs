//! Places inside compressed files at which decompression can start.

use std::sync::{Arc, Mutex, PoisonError};

use serde::{Deserialize, Serialize};

use super::pause::Pause;
use super::zstandard;

/// A place inside a compressed file at which decompression can start.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Restart {
    /// Decompressed bytes before it.
    pub(super) offset: u64,
    /// Bits of the file before it.
    pub(super) bit: u64,
    /// The state from which decompression continues.
    #[serde(flatten)]
    pub(super) inside: Inside,
    /// The checksum of the file's bytes after the place, which identifies the file. Positions of
    /// older versions do not have it.
    #[serde(default)]
    pub(super) ahead: Option<u32>,
}

/// The state from which decompression continues, by format.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub(super) enum Inside {
    Deflate {
        /// Decompressed bytes of the current member before the place, and their checksum.
        member: (u64, u32),
        /// The state of the member's data.
        pause: Pause,
    },
    Zstd {
        /// The state of the frame; `None` between frames. The key must be present, to distinguish
        /// the state from deflate's.
        #[serde(deserialize_with = "Option::deserialize")]
        frame: Option<zstandard::Pause>,
    },
}

impl Restart {
    /// Decompressed bytes before it.
    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    /// The byte of the file that contains the place.
    pub(super) fn byte(&self) -> u64 {
        self.bit / 8
    }
}

/// The last restart that a reader recorded. It records one when all bytes before it are taken, so
/// the one before is no longer needed.
#[derive(Clone, Default)]
pub(super) struct Restarts(Arc<Mutex<Option<Arc<Restart>>>>);

impl Restarts {
    /// Records a restart, which replaces the one before.
    pub(super) fn note(&self, restart: Arc<Restart>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(restart);
    }

    /// The last recorded restart.
    pub(super) fn last(&self) -> Option<Arc<Restart>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
