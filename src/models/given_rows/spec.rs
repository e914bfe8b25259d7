//! The description of given rows.

use super::array::StoredArray;
use crate::vocab::VocabularySpec;

/// Values of the first rows of a parameter, or of all. Source: prompt-tuning `prompts.py`.
#[derive(Clone, Debug, PartialEq)]
pub enum GivenRows {
    /// All rows.
    Array(StoredArray),
    /// Rows of an embedding, for all.
    Sample {
        /// The embedding.
        embeddings: StoredArray,
        /// The number of the embedding's first rows that can be drawn; `None` is all.
        population_size: Option<usize>,
    },
    /// A row for each text: the mean of the rows of its pieces.
    Texts {
        /// The embedding.
        embeddings: StoredArray,
        /// The vocabulary, which cuts texts into pieces.
        vocab: VocabularySpec,
        /// The texts.
        texts: Vec<String>,
    },
    /// A row for each piece of one text.
    Text {
        /// The embedding.
        embeddings: StoredArray,
        /// The vocabulary, which cuts the text into pieces.
        vocab: VocabularySpec,
        /// The text.
        text: String,
    },
}

impl GivenRows {
    /// The array that is read.
    pub fn array(&self) -> &StoredArray {
        match self {
            Self::Array(array) => array,
            Self::Sample { embeddings, .. }
            | Self::Texts { embeddings, .. }
            | Self::Text { embeddings, .. } => embeddings,
        }
    }
}
