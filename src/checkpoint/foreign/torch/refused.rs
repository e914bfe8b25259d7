//! Reasons for refusing a pickle.

/// The reason.
#[derive(Debug)]
pub(super) enum Refused {
    /// The bytes are not a pickle, or are truncated.
    Damaged(String),
    /// The pickle contains something else than tensors and plain containers.
    Unsupported(String),
    /// Reading failed.
    Io(std::io::Error),
}

impl Refused {
    pub fn damaged(reason: impl Into<String>) -> Self {
        Self::Damaged(reason.into())
    }
}
