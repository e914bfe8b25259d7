//! The failures of the processes of a run together.

/// A failure of the processes together.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProcessError {
    /// Another process ended with an error, which it has told.
    #[error("{0}")]
    Other(String),
    /// A process is gone without a word, or does not answer.
    #[error("{who}; the run ends here ({detail})")]
    Lost {
        /// The processes with their hosts, and their state.
        who: String,
        /// c10d's message.
        detail: String,
    },
    /// The processes did not find each other.
    #[error("{0}")]
    NotMet(String),
    /// This process was asked to end before it had found the others.
    #[error("it was asked to end")]
    Asked,
    /// The processes do not run the same thing.
    #[error("{0}")]
    Differ(String),
}
