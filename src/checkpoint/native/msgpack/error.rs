//! Why a file could not be decoded.

/// What is wrong with it.
#[derive(Debug)]
pub(in crate::checkpoint) enum DecodeError {
    /// It is cut or was changed.
    Damaged(String),
    /// It is valid, but nothing that can be restored.
    Unsupported(String),
    /// It is something else.
    NotACheckpoint(String),
    /// Its arrays lie where Orbax put them.
    Orbax,
}

pub(super) fn damaged(reason: impl Into<String>) -> DecodeError {
    DecodeError::Damaged(reason.into())
}
