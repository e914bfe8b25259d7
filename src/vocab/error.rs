//! The reasons why a vocabulary cannot be built.

use gimlet_storage::StorageError;

/// A vocabulary that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum VocabError {
    /// The model file cannot be read.
    #[error("cannot read the vocabulary: {0}")]
    Storage(#[from] StorageError),
    /// The file is not a SentencePiece model, or does not accept these extra ids.
    #[error("`{path}` is not a usable SentencePiece model: {reason}")]
    Model {
        /// The file as the user named it.
        path: String,
        /// The error in it, and the remedy.
        reason: String,
    },
    /// The folder has no tokenizer that a T5 or a BERT of transformers can have.
    #[error("`{path}` is not a usable tokenizer of Hugging Face's transformers: {reason}")]
    HuggingFace {
        /// The file or its folder.
        path: String,
        /// The error in it, and the remedy.
        reason: String,
    },
    /// The file is not a list of pieces.
    #[error("`{path}` is not a usable WordPiece vocabulary: {reason}")]
    WordPiece {
        /// The file as the user named it.
        path: String,
        /// The error in it, and the remedy.
        reason: String,
    },
    /// The vocabulary has no list of pieces that can be longer.
    #[error("{name} takes no new pieces: {reason}")]
    Closed {
        /// The vocabulary.
        name: String,
        /// The reason, and the remedy.
        reason: String,
    },
    /// The trainer cannot make a model from the options and the text.
    #[error("SentencePiece's trainer: {reason}")]
    Training {
        /// Its message.
        reason: String,
    },
}

impl VocabError {
    /// Whether the user's command is wrong, and not the system: exit status 2 instead of 1.
    pub fn is_users(&self) -> bool {
        match self {
            Self::Storage(error) => error.is_users(),
            Self::Model { .. }
            | Self::HuggingFace { .. }
            | Self::WordPiece { .. }
            | Self::Closed { .. }
            | Self::Training { .. } => true,
        }
    }
}
