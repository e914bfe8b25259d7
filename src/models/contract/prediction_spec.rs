//! The facts of a model that predicting needs, beside those that training needs.

use std::sync::Arc;

use thiserror::Error;

use crate::data::ConverterClass;
use crate::models::decoding::{
    AnswerSetParameters, Constraint, ConstraintError, DecodeFn, Prediction, Target,
};
use crate::vocab::{Vocabulary, VocabularySpec};

/// How a model predicts, and what of it is returned.
#[derive(Clone, Debug, PartialEq)]
pub struct PredictionSpec {
    /// Vocabulary of predictions.
    pub vocabulary: VocabularySpec,
    /// Converter for predictions, whose rows hold one example each.
    pub converter: ConverterClass,
    /// Converter for a task's examples with all their answers, of which the likeliest is predicted; `None` if predictions are decoded.
    pub of_answers: Option<ConverterClass>,
    /// Whether the targets are classes, which are named without decoding.
    pub names_classes: bool,
    /// Greatest number of tokens of inputs, if the model has one.
    pub max_inputs: Option<usize>,
    /// Whether inputs begin with the token of their vocabulary that begins a row.
    pub begins_inputs: bool,
    /// Whether a prediction goes on where the inputs end, as a decoder alone does, instead of reading all of them first.
    pub continues_inputs: bool,
    /// Whether such a decoder lets all inputs attend to each other, so that they are not predicted one after another.
    pub joins_inputs: bool,
    /// Decoding function.
    pub decode_fn: DecodeFn,
    /// Sequences per input.
    pub num_decodes: usize,
    /// The id that a decoder reads before a sequence.
    pub bos_id: i32,
    /// The id that ends a sequence; `None` for the vocabulary's end token.
    pub eos_id: Option<i32>,
    /// Whether sequences begin with the targets, for completing them.
    pub prompt_with_targets: bool,
    /// The set of answers that are possible.
    pub answers: AnswerSetParameters,
    /// Whether predictions are all sequences of an input instead of the best.
    pub returns_all_decodes: bool,
    /// Whether scores come with those of each target.
    pub returns_intermediates: bool,
}

/// A model from which no predictions are asked.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "{model} makes no predictions, since its network has no decoder; {}training measures its loss on held-out rows \
     (train.train_eval_dataset_cfg)",
    if *fills { "`gimlet fill` prints the likeliest pieces for `[MASK]` in texts, and " } else { "" }
)]
pub struct NoPredictions {
    /// The model's configurable.
    pub model: &'static str,
    /// Whether it restores masked tokens.
    pub fills: bool,
}

impl PredictionSpec {
    /// Options for decoding any sequences that end in `eos_id`, the vocabulary's end token, unless the model has its own.
    pub fn prediction(&self, eos_id: i64) -> Prediction {
        Prediction {
            num_decodes: self.decode_fn.num_decodes(self.num_decodes),
            decode_fn: self.decode_fn.clone(),
            bos_id: i64::from(self.bos_id),
            eos_id: self.eos_id.map_or(eos_id, i64::from),
            prompt_with_targets: self.prompt_with_targets,
            constraint: None,
        }
    }

    /// Options for decoding answers of the model's set in its vocabulary of predictions.
    ///
    /// # Errors
    /// The set cannot be read, or not be decoded.
    pub fn prediction_in(
        &self,
        vocabulary: &dyn Vocabulary,
    ) -> Result<Prediction, ConstraintError> {
        let prediction = self.prediction(i64::from(vocabulary.eos_id().unwrap_or(1)));
        let constraint = match self.answers.set()? {
            None => None,
            Some(set) => {
                let target = Target { vocabulary, ends: &prediction.ends() };
                Some(Arc::new(Constraint::new(&set, &target)?))
            }
        };
        Ok(Prediction { constraint, ..prediction })
    }

    /// Finds a set of answers that no vocabulary can decode.
    ///
    /// # Errors
    /// The mistake.
    pub fn check(&self) -> Result<(), ConstraintError> {
        match self.answers.set()? {
            Some(_) if self.prompt_with_targets => Err(ConstraintError::Prompted),
            _ => Ok(()),
        }
    }
}
