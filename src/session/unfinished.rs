//! The reasons why an evaluation has no result.

use std::sync::atomic::{AtomicBool, Ordering};

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

/// Continues between two batches, unless the run was asked to end.
///
/// # Errors
/// The run was asked to end.
pub fn go_on(stop: &AtomicBool) -> Result<(), Unfinished> {
    if stop.load(Ordering::Relaxed) { Err(Unfinished::Asked) } else { Ok(()) }
}
