//! Errors of reading and writing checkpoints.

use super::mismatch::Mismatch;
use gimlet_storage::{Path, StorageError};

/// A checkpoint that cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum CheckpointError {
    /// A file could not be read or written, or the path is not valid.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// The checkpoint is incomplete, or its bytes changed after it was written.
    #[error("checkpoint `{path}` is damaged: {reason}")]
    Damaged {
        /// The checkpoint.
        path: String,
        /// The file, and what was found and what was expected.
        reason: String,
    },
    /// No complete checkpoint is left in a folder that holds some.
    #[error(
        "no checkpoint in `{path}` can be read: {reasons}; remove these folders to start from \
         scratch, or restore another checkpoint"
    )]
    AllDamaged {
        /// The folder of checkpoints.
        path: String,
        /// Each checkpoint with its reason.
        reasons: String,
    },
    /// The checkpoint is not in T5X's own format.
    #[error(
        "`{path}` is an Orbax checkpoint; expected one of T5X's own: a folder `checkpoint_N` that holds a \
         file `checkpoint`"
    )]
    Orbax {
        /// The path as given.
        path: String,
    },
    /// Another process saves into the folder, or has taken the folder over from this process.
    #[error(
        "{by} trains into `{path}`: nothing is saved there by this process; wait until it ends, end it, \
         or set MODEL_DIR to another folder"
    )]
    Occupied {
        /// MODEL_DIR.
        path: String,
        /// The process and its host.
        by: String,
    },
    /// Another process writes the checkpoint, or may be writing it.
    #[error(
        "{by} writes `{path}`, or was killed while it did: nothing is written there by this process; wait \
         until it ends or, if it has ended, pass `--take_over` or remove the folder"
    )]
    Busy {
        /// The checkpoint.
        path: String,
        /// The process and its host.
        by: String,
    },
    /// Not all processes have written their parts.
    #[error("checkpoint `{path}` is not complete and nothing of it can be seen: {reason}")]
    Incomplete {
        /// The folder that is written.
        path: String,
        /// The process or the file that is missing.
        reason: String,
    },
    /// The path holds something else than a checkpoint.
    #[error("`{path}` is not a checkpoint: {reason}")]
    NotACheckpoint {
        /// The path as given.
        path: String,
        /// Description of what was found and what was expected.
        reason: String,
    },
    /// The file does not hold an array.
    #[error("`{path}` is not a file of numpy's: {reason}")]
    NotAnArray {
        /// The path as given.
        path: String,
        /// Description of what was found and what was expected.
        reason: String,
    },
    /// The path is not a folder of checkpoints, which the mode needs.
    #[error("`{path}` is not a folder of checkpoints: {reason}")]
    NotAFolder {
        /// The path as given.
        path: String,
        /// Description of what was found and what was expected.
        reason: String,
    },
    /// The checkpoint is complete, but uses something that T5X's own reader would refuse too.
    #[error("checkpoint `{path}` cannot be read: {reason}")]
    Unsupported {
        /// The checkpoint.
        path: String,
        /// Description of what was found.
        reason: String,
    },
    /// The target format cannot express the checkpoint, or the target is in use.
    #[error("`{path}` cannot be exported: {reason}")]
    Export {
        /// The checkpoint, or the target.
        path: String,
        /// Description of what was found and what was expected.
        reason: String,
    },
    /// An array that the checkpoint does not hold.
    #[error("checkpoint `{path}` has no array `{name}`")]
    NoArray {
        /// The checkpoint.
        path: String,
        /// The name asked for.
        name: String,
    },
    /// The checkpoint's arrays do not fit the model.
    #[error("{0}")]
    OtherModel(Mismatch),
    /// The file beside a checkpoint's arrays states other facts than the model, such as activations.
    #[error("checkpoint `{path}` holds another model: {reason}")]
    OtherFacts {
        /// The checkpoint.
        path: String,
        /// The facts, with both values, and a remedy.
        reason: String,
    },
    /// The assignment map does not fit.
    #[error("assignment_map: {0}")]
    Assignment(String),
}

impl CheckpointError {
    /// The error of a conversion whose file or folder another conversion writes.
    pub(crate) fn converting(path: &Path) -> Self {
        Self::Busy { path: path.to_string(), by: "another conversion".to_string() }
    }

    /// Whether the checkpoint itself is at fault, so that an older checkpoint may be usable.
    pub fn is_damage(&self) -> bool {
        matches!(self, Self::Damaged { .. })
    }

    /// Describes the damage, if the checkpoint is damaged.
    pub fn damage(&self) -> Option<String> {
        self.is_damage().then(|| self.to_string())
    }

    /// Whether the user's configuration is at fault, rather than the environment: exit status 2,
    /// not 1.
    pub fn is_users(&self) -> bool {
        match self {
            Self::Storage(error) => error.is_users(),
            Self::Damaged { .. } | Self::AllDamaged { .. } | Self::Incomplete { .. } => false,
            _ => true,
        }
    }

    /// Whether a retry may succeed later: a disk was full, or a server did not answer.
    pub fn may_pass(&self) -> bool {
        matches!(self, Self::Storage(error) if error.may_pass())
    }

    pub(super) fn damaged(path: &Path, reason: impl Into<String>) -> Self {
        Self::Damaged { path: path.to_string(), reason: reason.into() }
    }
}
