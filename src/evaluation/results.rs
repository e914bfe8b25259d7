//! The results of a task on which its metrics are computed.

use gimlet_metrics::ModelOutput;
use serde_json::Value;

use super::task::{EvalError, EvalTask, Example, Side};

/// Targets and outputs of a task, in the order of its examples.
pub(super) struct Results {
    /// Postprocessed.
    pub(super) targets: Vec<Value>,
    /// Decoded texts, postprocessed.
    pub(super) predictions: Option<Vec<Value>>,
    /// Log-likelihoods of the targets.
    pub(super) scores: Option<Vec<Value>>,
}

impl Results {
    /// Creates results of no examples.
    pub(super) fn new(task: &EvalTask<'_>) -> Self {
        let none_of = |output| task.needs(output).then(Vec::new);
        Self {
            targets: Vec::new(),
            predictions: none_of(ModelOutput::Prediction),
            scores: none_of(ModelOutput::Score),
        }
    }

    /// Adds the results of the next examples.
    ///
    /// # Errors
    /// A text cannot be postprocessed.
    pub(super) fn add(
        &mut self,
        task: &EvalTask<'_>,
        examples: &[Example],
        texts: Option<&[String]>,
        scores: Option<Vec<f64>>,
    ) -> Result<(), EvalError> {
        let first = self.targets.len();
        let targets = examples.iter().map(|example| &example.target);
        let targets = postprocessed(task, first, examples, targets, Side::Target)?;
        if let (Some(predictions), Some(texts)) = (&mut self.predictions, texts) {
            let found = postprocessed(task, first, examples, texts.iter(), Side::Prediction)?;
            predictions.extend(found);
        }
        if let (Some(all), Some(scores)) = (&mut self.scores, scores) {
            all.extend(scores.into_iter().map(Value::from));
        }
        self.targets.extend(targets);
        Ok(())
    }
}

/// Applies the task's postprocessing to one text of every example; `first` is the index of the first
/// one.
fn postprocessed<'a>(
    task: &EvalTask<'_>,
    first: usize,
    examples: &[Example],
    texts: impl Iterator<Item = &'a String>,
    side: Side,
) -> Result<Vec<Value>, EvalError> {
    let numbered = (first + 1..).zip(examples.iter().zip(texts));
    numbered
        .map(|(number, (example, text))| {
            (task.postprocess)(text, example, side).map_err(|reason| EvalError::Postprocess {
                task: task.name.to_string(),
                number,
                reason,
            })
        })
        .collect()
}
