//! Why a pickle is not read.

/// What is wrong with it.
#[derive(Debug)]
pub(super) enum Refused {
    /// It is no pickle, or cut.
    Damaged(String),
    /// It holds something else than tensors and plain containers.
    Unsupported(String),
    /// Reading failed.
    Io(std::io::Error),
}

impl Refused {
    pub fn damaged(reason: impl Into<String>) -> Self {
        Self::Damaged(reason.into())
    }
}
