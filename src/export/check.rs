//! Mistakes that keep an export from starting, found before anything is written.

use crate::data::{TaskProvider, subtasks};
use crate::models::hugging_face::feed_forward;
use crate::session::check::{UnfitSpec, check_path, check_restore, unfit};
use crate::session::error::SessionError;
use crate::session::named_checkpoints::named_checkpoints;
use crate::session::restored_params::RestoredParams;
use crate::storage::Path;
use crate::vocab::VocabularySpec;

use super::spec::{Save, WarmupExample};

/// Finds the first mistake that is visible in the spec alone.
///
/// # Errors
/// The first mistake.
pub fn check(spec: &Save) -> Result<(), UnfitSpec> {
    check_path("MODEL_OUTPUT_DIR", &spec.output_dir.0)?;
    spec.model.check().map_err(UnfitSpec)?;
    let options = spec.model.hugging_face().map_err(UnfitSpec)?;
    let activations: Vec<&str> =
        options.mlp_activations.iter().flatten().map(String::as_str).collect();
    feed_forward(&activations).map_err(|reason| {
        UnfitSpec(format!("export_lib.save.model: {reason}: generate and infer with Gimlet"))
    })?;
    check_restore(&spec.restore_checkpoint_cfg, Some(0), "export")?;
    if spec.restore_checkpoint_cfg.rules().is_some() {
        return unfit(
            "utils.RestoreCheckpointConfig renames arrays, which an export does not: bind assignment_map = \
             None and state_transformation_fns = []"
                .to_string(),
        );
    }
    if spec.output_features.is_some() && spec.mixture_or_task_name.is_some() {
        return unfit(
            "export_lib.save.output_features and mixture_or_task_name are both bound: drop one of them"
                .to_string(),
        );
    }
    if spec.batch_size == Some(0) {
        return unfit("export_lib.save.batch_size is 0, expected at least 1".to_string());
    }
    check_warmup(spec)?;
    check_vocabulary(spec)
}

fn check_warmup(spec: &Save) -> Result<(), UnfitSpec> {
    let examples = spec.warmup_examples.iter().flatten();
    let is_text = |example: &WarmupExample| matches!(example, WarmupExample::Text(_));
    match examples.into_iter().any(|example| is_text(example) == spec.tokenized_inputs) {
        false => Ok(()),
        true => {
            let expected = if spec.tokenized_inputs { "lists of token ids" } else { "texts" };
            unfit(format!(
                "export_lib.save.warmup_examples has other values than {expected}, which tokenized_inputs = {} needs: \
                 change one of the two",
                if spec.tokenized_inputs { "True" } else { "False" }
            ))
        }
    }
}

fn check_vocabulary(spec: &Save) -> Result<(), UnfitSpec> {
    match &spec.model.prediction_spec()?.vocabulary {
        VocabularySpec::SentencePiece(_) | VocabularySpec::Byte(_) => Ok(()),
        _ if spec.tokenized_inputs => Ok(()),
        other => {
            let name = crate::gin::Slot::schema_of(other).name;
            unfit(format!(
                "transformers have no tokenizer for the model's vocabulary, {name}: bind \
                 export_lib.save.tokenized_inputs = True to export none"
            ))
        }
    }
}

/// Looks for the task, and compares vocabularies with the model's.
///
/// # Errors
/// A missing task, a vocabulary that differs from the model's.
pub fn preflight(spec: &Save, tasks: &dyn TaskProvider) -> Result<(), SessionError> {
    let mut features = Vec::new();
    if let Some(name) = &spec.mixture_or_task_name {
        for task in subtasks(name, tasks).map_err(|error| tasks.placed(name, error))? {
            features.extend(task.output_features.clone());
        }
    }
    features.extend(spec.output_features.clone().into_iter().flatten());
    for (name, expected) in spec.model.vocabularies() {
        for (_, feature) in features.iter().filter(|(feature, _)| feature == name) {
            if !feature.vocabulary.is_same_as(expected)? {
                return Err(SessionError::Unfit(format!(
                    "the vocabulary of feature '{name}' is {}, and the model's {}: export with the vocabulary \
                     that the model was trained with",
                    feature.vocabulary.build()?.name(),
                    expected.build()?.name()
                )));
            }
        }
    }
    Ok(())
}

/// Returns the checkpoint, which holds the model.
///
/// # Errors
/// There is none or another one, or several are named.
pub fn checkpoint(spec: &Save) -> Result<Path, SessionError> {
    let config = &spec.restore_checkpoint_cfg;
    let paths = named_checkpoints(config)?;
    let [path] = &paths[..] else {
        return Err(SessionError::Unfit(format!(
            "utils.RestoreCheckpointConfig names {} checkpoints, expected one to export",
            paths.len()
        )));
    };
    RestoredParams::new(&spec.model, config).check(path)?;
    Ok(path.clone())
}
