//! Errors of decoding a file.

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
}

pub(super) fn damaged(reason: impl Into<String>) -> DecodeError {
    DecodeError::Damaged(reason.into())
}
