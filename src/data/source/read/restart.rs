//! Places inside compressed files where decompressing can begin.

use std::sync::{Arc, Mutex, PoisonError};

use serde::{Deserialize, Serialize};

use super::pause::Pause;
use super::zstandard;

/// A place inside a compressed file where decompressing can begin.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Restart {
    /// Decompressed bytes before it.
    pub(super) offset: u64,
    /// Bits of the file before it.
    pub(super) bit: u64,
    /// What decompressing goes on from.
    #[serde(flatten)]
    pub(super) inside: Inside,
    /// The checksum of the file's bytes behind it, by which the file is known again. Positions of
    /// former versions lack it.
    #[serde(default)]
    pub(super) ahead: Option<u32>,
}

/// What decompressing goes on from, by the format.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub(super) enum Inside {
    Deflate {
        /// Decompressed bytes of its member before it, and their checksum.
        member: (u64, u32),
        /// The state of its member's data.
        pause: Pause,
    },
    Zstd {
        /// The state of the frame; `None` between frames. It has to be there to be told from deflate's.
        #[serde(deserialize_with = "Option::deserialize")]
        frame: Option<zstandard::Pause>,
    },
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
