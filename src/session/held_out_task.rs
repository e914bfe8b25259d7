//! The held-out examples of one task, read as a stream: memory holds one batch of them.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value as Json, json};

use crate::data::{
    self, Batch, Caches, DataError, DatasetConfig, ExampleOptions, Feature, FeatureConverter,
    Packing, Task, max_feature_lengths, task_examples,
};
use crate::evaluation::{Evaluator, Example, Side};
use crate::gin::did_you_mean;
use crate::models::Model;
use crate::vocab::Vocabulary;

use super::error::SessionError;

/// The held-out examples of a task that has metrics.
pub struct HeldOutTask {
    /// The task.
    pub task: Arc<Task>,
    options: ExampleOptions,
    /// The greatest number of examples to read.
    limit: usize,
    converter: FeatureConverter,
    pads_to_longest_targets: bool,
    target: String,
    target_vocabulary: Arc<dyn Vocabulary>,
    input_vocabulary: Option<Arc<dyn Vocabulary>>,
}

impl HeldOutTask {
    /// Reads all examples once and keeps none, so that a mistake in one of them is reported before
    /// the run starts. For a task without metrics or without the split, returns the reason why it
    /// has no examples.
    ///
    /// # Errors
    /// Reading fails, or the task does not fit the evaluation.
    pub fn open(
        task: Arc<Task>,
        config: &DatasetConfig,
        cache: Option<Caches>,
        evaluator: &Evaluator,
        model: &Model,
    ) -> Result<Result<Self, String>, SessionError> {
        let laid_out = Self::laid_out(task, config, cache, evaluator, model)?;
        let Ok(held_out) = &laid_out else { return Ok(laid_out) };
        let mut examples = task_examples(&held_out.task, &held_out.options)?.take(held_out.limit);
        examples.try_for_each(|example| example.map(drop))?;
        let name = held_out.task.task_name();
        held_out.options.bad_records.tell(&format!("evaluation of {name}"));
        Ok(laid_out)
    }

    /// Finds the mistakes that do not depend on the examples; if the lengths are not given, those of
    /// the longest example are looked for. For a task without metrics or without the split, returns
    /// the reason why it has no examples.
    ///
    /// # Errors
    /// The files cannot be found, or the task does not fit the evaluation.
    pub fn laid_out(
        task: Arc<Task>,
        config: &DatasetConfig,
        cache: Option<Caches>,
        evaluator: &Evaluator,
        model: &Model,
    ) -> Result<Result<Self, String>, SessionError> {
        if task.metric_fns.is_empty() {
            return Ok(Err(format!("`{}` has no metrics", task.task_name())));
        }
        let options = ExampleOptions {
            split: config.split.clone(),
            lengths: config.task_feature_lengths.clone(),
            known_ids: Some(model.known_ids()),
            cache,
            shuffle: evaluator.shuffle,
            seed: config.seed.unwrap_or(42),
            ..ExampleOptions::default()
        };
        match task_examples(&task, &options) {
            Err(missing @ DataError::UnknownSplit { .. }) => return Ok(Err(missing.to_string())),
            examples => drop(examples?),
        }
        let lengths = match &config.task_feature_lengths {
            Some(lengths) => lengths.clone(),
            None => max_feature_lengths(&task, &options)?,
        };
        let limit = evaluator.num_examples.unwrap_or(usize::MAX);
        let target = evaluator.target_field_name.clone();
        let target_vocabulary = target_feature(&task, &target)?.vocabulary.build()?;
        let input = task.output_features.get("inputs");
        let input_vocabulary = input.map(|input| input.vocabulary.build()).transpose()?;
        let converter = prediction_converter(&task, &lengths, model)?;
        let converter = config.ended(converter, &task)?;
        Ok(Ok(Self {
            task,
            options,
            limit,
            converter,
            pads_to_longest_targets: evaluator.pads_to_longest_targets,
            target,
            target_vocabulary,
            input_vocabulary,
        }))
    }

    /// Reads the examples again, in batches of that many; the last one may be smaller.
    ///
    /// # Errors
    /// The files cannot be opened.
    pub fn batches(
        &self,
        rows: usize,
    ) -> Result<impl Iterator<Item = Result<Vec<data::Example>, DataError>>, DataError> {
        Ok(in_batches(task_examples(&self.task, &self.options)?.take(self.limit), rows))
    }

    /// Converts examples to the model's features.
    ///
    /// # Errors
    /// An example does not fit the lengths.
    pub fn features(&self, examples: &[data::Example]) -> Result<Batch, DataError> {
        match self.pads_to_longest_targets {
            true => self.converter.fitted("targets", examples).batch(examples, examples.len()),
            false => self.converter.batch(examples, examples.len()),
        }
    }

    /// Converts an example for logs and metrics.
    pub fn logged(&self, example: &data::Example) -> Example {
        Example::of(example, &self.target, &*self.target_vocabulary)
    }

    /// Returns the input of an example: its text, or the decoded ids if a preprocessor made them;
    /// `None` if the task has no inputs. Those of several answers are the same text.
    pub fn input(&self, example: &data::Example) -> Option<String> {
        let vocabulary = self.input_vocabulary.as_ref()?;
        Some(match example.text("inputs_pretokenized") {
            Some(text) => text.to_string(),
            None => {
                example.texts("inputs_pretokenized").first().cloned().unwrap_or_else(|| {
                    vocabulary.decode(example.ints("inputs").unwrap_or_default())
                })
            }
        })
    }

    /// Applies the task's postprocessing to the text of one side of an example.
    ///
    /// # Errors
    /// The text has no such form.
    pub fn postprocess(&self, text: &str, example: &Example, side: Side) -> Result<Json, String> {
        match &self.task.postprocess_fn {
            Some(postprocess) => postprocess.apply(text, &example.features, side == Side::Target),
            None => Ok(json!(text)),
        }
    }

    /// Prints the postprocessed value of one side of an example as Python does.
    pub fn printed(&self, value: &Json, side: Side) -> String {
        data::printed(self.task.postprocess_fn.as_ref(), value, side == Side::Target)
    }
}

/// Returns the feature that holds the targets.
fn target_feature<'a>(task: &'a Task, name: &str) -> Result<&'a Feature, SessionError> {
    task.output_features.get(name).ok_or_else(|| {
        let known = task.output_features.keys().map(String::as_str);
        let (task, known) = (task.task_name(), did_you_mean(name, known));
        SessionError::Unfit(format!(
            "task `{task}` has no output feature '{name}', which seqio.Evaluator.target_field_name names: {known}"
        ))
    })
}

/// Groups examples; none is read before its batch is asked for.
fn in_batches<E>(
    mut examples: impl Iterator<Item = Result<data::Example, E>>,
    rows: usize,
) -> impl Iterator<Item = Result<Vec<data::Example>, E>> {
    std::iter::from_fn(move || {
        let batch: Result<Vec<_>, E> = examples.by_ref().take(rows).collect();
        batch.map(|batch| Some(batch).filter(|batch| !batch.is_empty())).transpose()
    })
}

/// Returns the converter of a task's examples into rows to be decoded, one example each.
///
/// # Errors
/// 'inputs' or 'targets' have no length.
pub fn prediction_converter(
    task: &Task,
    lengths: &BTreeMap<String, usize>,
    model: &Model,
) -> Result<FeatureConverter, SessionError> {
    let predictions = model.prediction_spec()?;
    let length = |feature: &str| {
        lengths.get(feature).copied().filter(|length| *length > 0).ok_or_else(|| {
            let name = task.task_name();
            SessionError::Unfit(format!(
                "utils.DatasetConfig.task_feature_lengths has no length for '{feature}', expected one for 'inputs' and \
                 for 'targets', since {name} is decoded: add it to TASK_FEATURE_LENGTHS"
            ))
        })
    };
    let of_texts = ["inputs", "targets"].map(|name| Ok((name.to_string(), length(name)?)));
    let of_texts = of_texts.into_iter().collect::<Result<_, SessionError>>()?;
    let (class, lengths) = match &predictions.of_answers {
        Some(class) => (class, lengths),
        None => (&predictions.converter, &of_texts),
    };
    Ok(FeatureConverter::new(class, lengths, Packing::None, predictions.bos_id)?)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::data::{Key, Value};

    #[test]
    fn no_example_is_read_before_its_batch() {
        let num_read = Cell::new(0);
        let examples = (0..10).map(|number| {
            num_read.set(num_read.get() + 1);
            Ok::<_, ()>(data::Example::of(Key::from("number"), Value::Int(number)))
        });
        let mut found = Vec::new();
        for batch in in_batches(examples, 4) {
            found.push((num_read.get(), batch.expect("nothing fails").len()));
        }
        assert_eq!(found, [(4, 4), (8, 4), (10, 2)]);
    }

    #[test]
    fn an_error_comes_with_its_batch() {
        let examples = (0..10).map(|number| match number {
            5 => Err(number),
            _ => Ok(data::Example::default()),
        });
        let batches: Vec<_> = in_batches(examples, 4).take(2).collect();
        assert!(batches[0].is_ok());
        assert_eq!(batches[1], Err(5));
    }
}
