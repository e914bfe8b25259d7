//! Why an evaluation has no result.

use std::sync::atomic::{AtomicBool, Ordering};

use super::error::TrainError;

/// Why an evaluation has no result.
#[derive(Debug)]
pub enum Unfinished {
    /// The run was asked to end. Whoever takes it up evaluates again.
    Asked,
    /// Something went wrong.
    Failed(TrainError),
}

impl<E: Into<TrainError>> From<E> for Unfinished {
    fn from(error: E) -> Self {
        Self::Failed(error.into())
    }
}

/// Between two batches: goes on unless the run was asked to end.
///
/// # Errors
/// It was.
pub fn go_on(stop: &AtomicBool) -> Result<(), Unfinished> {
    if stop.load(Ordering::Relaxed) { Err(Unfinished::Asked) } else { Ok(()) }
}
