//! The reasons for which a run stops before its end.

use crate::checkpoint::CheckpointError;
use crate::data::DataError;
use crate::evaluation::EvalError;
use crate::partition::ProcessError;
use crate::storage::StorageError;
use crate::vocab::VocabError;

use super::check::UnfitSpec;
use crate::models::decoding::ConstraintError;
use crate::models::given_rows::GivenRowsError;
use crate::models::{NoFilling, NoPredictions};

/// The reason why a run stopped before its end.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// The configuration is not possible, which was found only when it was built.
    #[error("{0}")]
    Unfit(String),
    /// The configuration is not possible.
    #[error(transparent)]
    Spec(#[from] UnfitSpec),
    /// Another process trains into the folder.
    #[error(
        "{by} trains into `{model_dir}`: wait until it ends, end it, {or}or set MODEL_DIR to another \
         folder"
    )]
    Occupied {
        /// MODEL_DIR.
        model_dir: String,
        /// The process and its host.
        by: String,
        /// A further remedy, or nothing.
        or: &'static str,
    },
    /// The loss is not finite any more.
    #[error(
        "the loss is {value} at step {step}; {}: lower the learning rate \
         (utils.create_learning_rate_scheduler.base_learning_rate), or use float32 \
         (the network's dtype)",
        newest(saved)
    )]
    NonFiniteLoss {
        /// The step that computed it.
        step: u64,
        /// The loss.
        value: f64,
        /// Step of the newest checkpoint.
        saved: Option<u64>,
    },
    /// Memory ran out.
    #[error("out of memory in step {step}: {detail}; {remedy}")]
    OutOfMemory {
        /// The step.
        step: u64,
        /// libtorch's message.
        detail: String,
        /// A remedy that reduces the memory of a step.
        remedy: String,
    },
    /// The model does not fit into the device's memory.
    #[error(
        "the state of the model does not fit into memory: {detail}; lower the network's \
         dimensions (`--dry_run` estimates what it needs)"
    )]
    ModelTooLarge {
        /// libtorch's message.
        detail: String,
    },
    /// libtorch failed.
    #[error("libtorch failed in step {step}: {detail}")]
    Torch {
        /// The step.
        step: u64,
        /// libtorch's message.
        detail: String,
    },
    /// Another process of the run is lost, or differs.
    #[error(transparent)]
    Processes(#[from] ProcessError),
    /// Reading data failed.
    #[error(transparent)]
    Data(#[from] DataError),
    /// A vocabulary cannot be used.
    #[error(transparent)]
    Vocab(#[from] VocabError),
    /// A checkpoint cannot be read or written.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    /// Predictions cannot be scored or written down.
    #[error(transparent)]
    Evaluation(#[from] EvalError),
    /// A file cannot be read or written.
    #[error(transparent)]
    Storage(#[from] StorageError),
}

impl From<ConstraintError> for SessionError {
    fn from(error: ConstraintError) -> Self {
        match error {
            ConstraintError::Storage(error) if !error.is_users() => Self::Storage(error),
            error => Self::Unfit(error.to_string()),
        }
    }
}

impl From<GivenRowsError> for SessionError {
    fn from(error: GivenRowsError) -> Self {
        match error {
            GivenRowsError::Unfit(reason) => Self::Unfit(reason),
            GivenRowsError::Checkpoint(error) => Self::Checkpoint(error),
            GivenRowsError::Storage(error) => Self::Storage(error),
            GivenRowsError::Vocab(error) => Self::Vocab(error),
        }
    }
}

impl From<NoPredictions> for SessionError {
    fn from(error: NoPredictions) -> Self {
        Self::Spec(error.into())
    }
}

impl From<NoFilling> for SessionError {
    fn from(error: NoFilling) -> Self {
        Self::Spec(error.into())
    }
}

impl SessionError {
    /// Whether the user can fix it in the configuration or the command.
    pub fn is_users(&self) -> bool {
        match self {
            SessionError::Unfit(_)
            | SessionError::Spec(_)
            | SessionError::Occupied { .. }
            | SessionError::Vocab(_) => true,
            SessionError::Data(error) => error.is_users(),
            SessionError::Checkpoint(error) => error.is_users(),
            SessionError::Storage(error) => error.is_users(),
            SessionError::Evaluation(error) => !matches!(error, EvalError::Write { .. }),
            SessionError::Processes(error) => matches!(error, ProcessError::Differ(_)),
            SessionError::NonFiniteLoss { .. }
            | SessionError::OutOfMemory { .. }
            | SessionError::ModelTooLarge { .. }
            | SessionError::Torch { .. } => false,
        }
    }
}

fn newest(saved: &Option<u64>) -> String {
    match saved {
        Some(step) => format!("nothing after step {step} was saved"),
        None => "nothing was saved".to_string(),
    }
}
