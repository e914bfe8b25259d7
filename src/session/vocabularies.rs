//! Checks that the vocabularies of the data are those of the model, and fit its embedding.

use crate::data::{DatasetConfig, TaskProvider, subtasks};
use crate::models::Model;
use crate::vocab::{VocabError, VocabularySpec};

use super::error::SessionError;

/// Compares the features' vocabularies with the model's (T5X `utils.py`, `verify_matching_vocabs`).
///
/// # Errors
/// The vocabularies differ, or one has more ids than the model has rows.
pub fn check_vocabularies(
    model: &Model,
    config: &DatasetConfig,
    tasks: &dyn TaskProvider,
) -> Result<(), SessionError> {
    let name = &config.mixture_or_task_name;
    for task in subtasks(name, tasks).map_err(|error| tasks.placed(name, error))? {
        for (name, expected) in model.vocabularies() {
            let Some(feature) = task.output_features.get(name) else { continue };
            check_same(task.task_name(), &feature.vocabulary, expected)?;
            check_size(&feature.vocabulary, model)?;
        }
    }
    Ok(())
}

fn check_same(
    task: &str,
    found: &VocabularySpec,
    expected: &VocabularySpec,
) -> Result<(), SessionError> {
    let name = found.build()?.name();
    let remedy = "bind VOCABULARY to the task's vocabulary, or change the task";
    let error = match difference(found, expected) {
        Ok(None) => return Ok(()),
        Ok(Some(models)) => format!(
            "model and task vocabularies do not match:\n  task `{task}`: {name}\n  model: {models}\n{remedy}"
        ),
        // Often this is the library's own vocabulary in a bucket, which the user did not name.
        Err(error) => format!(
            "the vocabulary of task `{task}`, {name}, cannot be compared with the model's: {error}\n{remedy}"
        ),
    };
    Err(SessionError::Unfit(error))
}

/// Returns the name of the expected vocabulary, if it differs from the found one.
fn difference(
    found: &VocabularySpec,
    expected: &VocabularySpec,
) -> Result<Option<String>, VocabError> {
    let name = expected.build()?.name();
    let is_same = found.is_same_as(expected)? || found.build()?.name() == name;
    Ok((!is_same).then_some(name))
}

fn check_size(vocabulary: &VocabularySpec, model: &Model) -> Result<(), SessionError> {
    // SeqIO's WordPiece counts one more id, for unknown pieces of lists without one.
    let num_unknown = usize::from(matches!(vocabulary, VocabularySpec::BertWordPiece(_)));
    let (vocabulary, rows) = (vocabulary.build()?, model.num_ids());
    let size = vocabulary.vocab_size() - num_unknown;
    if size <= rows {
        return Ok(());
    }
    Err(SessionError::Unfit(format!(
        "{} has {size} ids, but {} is {rows}: set it to {} or more",
        vocabulary.name(),
        model.dimensions().parameter("vocab_size"),
        size.next_multiple_of(128),
    )))
}
