//! The vocabulary of a model that is written for transformers.

use crate::checkpoint::HuggingFaceOptions;
use crate::models::PredictionSpec;
use crate::storage::{Path, StorageError};
use crate::vocab::VocabularySpec;

/// Adds the files of a model's vocabulary to the options.
///
/// # Errors
/// The path of the vocabulary is not valid.
pub fn state_vocabulary(
    predictions: &PredictionSpec,
    options: &mut HuggingFaceOptions,
) -> Result<(), StorageError> {
    match &predictions.vocabulary {
        VocabularySpec::SentencePiece(spec) => {
            options.vocabulary = Some(Path::parse(&spec.sentencepiece_model_file)?);
            options.extra_ids = Some(spec.extra_ids);
        }
        VocabularySpec::Byte(spec) => match &spec.tokenizer_config {
            Some(file) => options.vocabulary = Some(Path::parse(file)?),
            None => options.extra_ids = Some(spec.extra_ids),
        },
        _ => {}
    }
    Ok(())
}
