//! The facts of a model that restoring masked tokens needs, beside those that training needs.

use thiserror::Error;

use crate::vocab::VocabularySpec;

/// The tokens that a model restores, and the rows that it reads.
#[derive(Clone, Debug, PartialEq)]
pub struct FillSpec {
    /// Vocabulary of all ids.
    pub vocabulary: VocabularySpec,
    /// Greatest number of tokens of a row.
    pub max_tokens: usize,
    /// The parameter that sets it, for messages.
    pub max_tokens_name: &'static str,
}

/// A model of which no masked tokens can be asked.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "{model} restores no masked tokens, expected bert.BertForMaskedLM or bert.BertForPreTraining{}",
    if *predicts { "; `gimlet generate` answers texts with it" } else { "" }
)]
pub struct NoFilling {
    /// The model's configurable.
    pub model: &'static str,
    /// Whether it answers texts.
    pub predicts: bool,
}
