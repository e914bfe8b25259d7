//! The errors of given rows.

use crate::checkpoint::CheckpointError;
use crate::storage::StorageError;
use crate::vocab::VocabError;

/// Given rows that cannot be read, or that do not fit the parameter.
#[derive(Debug, thiserror::Error)]
pub enum GivenRowsError {
    /// An array or a text does not fit: found, expected, and the remedy.
    #[error("{0}")]
    Unfit(String),
    /// The checkpoint or the file of an array cannot be read.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    /// A path is not valid.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// The vocabulary cannot be read.
    #[error(transparent)]
    Vocab(#[from] VocabError),
}
