//! The failure of an operation of several processes.

/// A failure of the network or of another process, in c10d's words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct C10dError(pub String);
