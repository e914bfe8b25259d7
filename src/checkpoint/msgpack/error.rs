//! Errors of reading a file.

use std::io;

use crate::error::CheckpointError;
use gimlet_storage::{Path, StorageError};

/// The reason.
#[derive(Debug)]
pub(crate) enum DecodeError {
    /// The file is truncated or was changed.
    Damaged(String),
    /// The file is valid, but cannot be restored.
    Unsupported(String),
    /// The file is something else than a checkpoint.
    NotACheckpoint(String),
    /// The arrays are stored in Orbax's format.
    Orbax,
    /// The storage failed.
    Storage(io::Error),
}

impl DecodeError {
    pub fn damaged(reason: impl Into<String>) -> Self {
        Self::Damaged(reason.into())
    }

    /// Begins the reason with the name of the leaf that it concerns.
    pub fn in_leaf(self, name: &str) -> Self {
        let within = |reason| match name {
            "" => format!("its msgpack {reason}"),
            _ => format!("`{name}` {reason}"),
        };
        match self {
            Self::Damaged(reason) => Self::Damaged(within(reason)),
            Self::Unsupported(reason) => Self::Unsupported(within(reason)),
            other => other,
        }
    }

    /// Returns the error of the checkpoint at a path.
    pub fn at(self, path: &Path) -> CheckpointError {
        let shown = path.to_string();
        match self {
            Self::Damaged(reason) => CheckpointError::Damaged { path: shown, reason },
            Self::Unsupported(reason) => CheckpointError::Unsupported { path: shown, reason },
            Self::NotACheckpoint(reason) => CheckpointError::NotACheckpoint { path: shown, reason },
            Self::Orbax => CheckpointError::Orbax { path: shown },
            Self::Storage(error) => StorageError::new("read", path, error).into(),
        }
    }
}

/// A reader returns these two kinds for a file that ends too early, or goes beyond a limit.
impl From<io::Error> for DecodeError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::UnexpectedEof => Self::damaged("ends early"),
            io::ErrorKind::InvalidData => Self::Damaged(error.to_string()),
            _ => Self::Storage(error),
        }
    }
}

impl From<rmpv::decode::Error> for DecodeError {
    fn from(error: rmpv::decode::Error) -> Self {
        match error {
            rmpv::decode::Error::DepthLimitExceeded => Self::damaged("is nested too deeply"),
            other => io::Error::from(other).into(),
        }
    }
}
