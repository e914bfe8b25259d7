//! The vocabularies of the task that a run names, as statements of gin.

use crate::data::{DataError, subtasks};
use crate::dialects::mesh_tf::spec::{DatasetFn, MeshEvalDatasetFn, MeshTrainDatasetFn};
use crate::dialects::mesh_tf::{Meaning, Places, Vocabularies, Vocabulary};
use crate::gin::{Configurable, Diagnostic, Diagnostics, Loaded, Ref, ValueKind, repr_str};
use crate::run::failure::Failure;
use crate::run::tasks::GinTasks;
use crate::vocab::{
    ByteVocabulary, PassThroughVocabulary, SentencePieceVocabulary, VocabularySpec,
};

/// The macro of t5's files that names a task.
pub const MIXTURE_NAME: &str = "MIXTURE_NAME";

/// Ids of published models, without those that a vocabulary adds: configurations are checked without their files.
const PUBLISHED: [(&str, u64); 3] = [
    ("t5-data/vocabs/cc_all.32000/sentencepiece.model", 32_000),
    ("t5-data/vocabs/cc_all.32000.100extra/sentencepiece.model", 32_100),
    ("t5-data/vocabs/mc4.250000.100extra/sentencepiece.model", 250_100),
];

/// Returns the vocabularies of the task or mixture that a run names.
///
/// # Errors
/// A task that is not declared; a file of a vocabulary that cannot be read.
pub fn vocabularies(
    meaning: &Meaning,
    loaded: &Loaded,
    tasks: &GinTasks,
) -> Result<Vocabularies, Failure> {
    let Some((name, schema)) = named(meaning, loaded) else { return published() };
    let of_task = subtasks(name, tasks).map_err(|error| match error {
        DataError::UnknownTask { name, suggestion } => {
            let message = format!("no task or mixture is named `{name}`");
            let mistake = mistake(loaded, schema, message).help(suggestion);
            let help = "`--module_import=MODULE` brings the tasks of a task file";
            let list = vec![mistake.help(help)];
            Diagnostics { sources: loaded.sources.clone(), list }.into()
        }
        other => Failure::usage(other),
    })?;
    let features = of_task.first().map(|task| &task.output_features);
    let feature = |name: &str| features.and_then(|features| features.get(name));
    let Some(targets) = feature("targets") else {
        let message = format!("`{name}` has no feature `targets`, which the model predicts");
        let list = vec![mistake(loaded, schema, message)];
        return Err(Diagnostics { sources: loaded.sources.clone(), list }.into());
    };
    let inputs = feature("inputs").unwrap_or(targets);
    Ok(Vocabularies {
        inputs: written(&inputs.vocabulary)?,
        targets: written(&targets.vocabulary)?,
    })
}

/// The vocabulary of the published T5, which t5 takes where no task is named.
fn published() -> Result<Vocabularies, Failure> {
    let vocabulary = VocabularySpec::SentencePiece(SentencePieceVocabulary {
        sentencepiece_model_file: "gs://t5-data/vocabs/cc_all.32000/sentencepiece.model"
            .to_string(),
        extra_ids: 100,
        reverse_extra_ids: true,
        normalizer_spec_overrides: None,
    });
    Ok(Vocabularies { inputs: written(&vocabulary)?, targets: written(&vocabulary)? })
}

/// Returns the task whose vocabularies a run has, and the configurable that names it: that of its data. Text files have
/// those of MIXTURE_NAME, or else of the task that the model was trained on.
fn named<'a>(meaning: &'a Meaning, loaded: &'a Loaded) -> Option<(&'a str, &'static str)> {
    let run = &meaning.run;
    let of_macro = || match &loaded.config.macros.get(MIXTURE_NAME)?.value.kind {
        ValueKind::Str(name) => Some((name.as_str(), MeshTrainDatasetFn::schema().name)),
        _ => None,
    };
    match run.mode.as_str() {
        "train" => task_of(run.train_dataset_fn.as_ref()).or_else(of_macro),
        "infer" | "score_from_strings" => {
            of_macro().or_else(|| task_of(run.train_dataset_fn.as_ref()))
        }
        _ => task_of(run.eval_dataset_fn.as_ref()),
    }
}

/// Returns the task of a data set, and the configurable that names it.
fn task_of(data: Option<&Ref<DatasetFn>>) -> Option<(&str, &'static str)> {
    match &data?.0 {
        DatasetFn::Train(data) => {
            Some((&data.mixture_or_task_name, MeshTrainDatasetFn::schema().name))
        }
        DatasetFn::Eval(data) => {
            Some((&data.mixture_or_task_name, MeshEvalDatasetFn::schema().name))
        }
        DatasetFn::Inference(_) | DatasetFn::Tsv(_) => None,
    }
}

fn mistake(loaded: &Loaded, configurable: &'static str, message: String) -> Diagnostic {
    Places::new(loaded).mistake_of(configurable, "mixture_or_task_name", message)
}

/// Writes a vocabulary as gin.
fn written(spec: &VocabularySpec) -> Result<Vocabulary, Failure> {
    let number = |name: &str, number: usize| (name.to_string(), number.to_string());
    let (configurable, parameters, extra_ids) = match spec {
        VocabularySpec::SentencePiece(vocabulary)
            if vocabulary.normalizer_spec_overrides.is_none() =>
        {
            (
                SentencePieceVocabulary::schema().name,
                vec![
                    (
                        "sentencepiece_model_file".to_string(),
                        repr_str(&vocabulary.sentencepiece_model_file),
                    ),
                    number("extra_ids", vocabulary.extra_ids),
                    (
                        "reverse_extra_ids".to_string(),
                        if vocabulary.reverse_extra_ids { "True" } else { "False" }.to_string(),
                    ),
                ],
                vocabulary.extra_ids,
            )
        }
        VocabularySpec::Byte(vocabulary) => (
            ByteVocabulary::schema().name,
            vec![number("extra_ids", vocabulary.extra_ids)],
            vocabulary.extra_ids,
        ),
        VocabularySpec::PassThrough(vocabulary) => {
            (PassThroughVocabulary::schema().name, vec![number("size", vocabulary.size)], 0)
        }
        _ => {
            return Err(Failure::usage(anyhow::anyhow!(
                "the vocabulary of the task cannot be that of a model of Mesh TensorFlow, expected a \
                 SentencePieceVocabulary or a ByteVocabulary: train with `gimlet train`"
            )));
        }
    };
    Ok(Vocabulary {
        configurable: configurable.to_string(),
        parameters,
        size: size(spec)?,
        extra_ids: extra_ids as u64,
    })
}

/// Returns the number of ids; that of a published vocabulary without reading it.
fn size(spec: &VocabularySpec) -> Result<u64, Failure> {
    if let VocabularySpec::SentencePiece(vocabulary) = spec {
        let file = &vocabulary.sentencepiece_model_file;
        let known = PUBLISHED.iter().find(|(path, _)| file.strip_suffix(path) == Some("gs://"));
        if let Some((_, pieces)) = known {
            return Ok(pieces + vocabulary.extra_ids as u64);
        }
    }
    let built = spec.build().map_err(|error| match error.is_users() {
        true => Failure::usage(error),
        false => Failure::world(error),
    })?;
    Ok(built.vocab_size() as u64)
}
