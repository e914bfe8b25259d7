//! The reasons why an evaluation has no result.

use super::error::SessionError;

/// The reason why an evaluation has no result.
#[derive(Debug)]
pub enum Unfinished {
    /// The run was asked to end. The process that continues it evaluates again.
    Asked,
    /// An error ended the evaluation.
    Failed(SessionError),
}

impl<E: Into<SessionError>> From<E> for Unfinished {
    fn from(error: E) -> Self {
        Self::Failed(error.into())
    }
}
