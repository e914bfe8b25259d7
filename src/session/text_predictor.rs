//! Decodes batches of examples to texts.

use tch::{Device, Kind};

use crate::data;
use crate::models::decoding::{DecodeError, Decodes, Prediction};
use crate::models::{Batch, Model, Predict};
use crate::vocab::Vocabulary;

use super::error::SessionError;
use super::eval_context::EvalContext;
use super::forward::Forward;

/// A decoded sequence.
#[derive(Clone, Debug, PartialEq)]
pub struct Hypothesis {
    /// As long as the targets, 0 after the end token.
    pub ids: Vec<i32>,
    /// The score by which it was compared with others.
    pub score: f64,
}

/// A model that decodes many batches with the parameters of a step.
pub struct TextPredictor<'a> {
    forward: &'a Forward,
    step: u64,
    predict: Box<dyn Predict + 'a>,
    prediction: Prediction,
    vocabulary: &'a dyn Vocabulary,
}

impl<'a> TextPredictor<'a> {
    /// Lays the parameters out for batches of that many rows.
    ///
    /// # Errors
    /// The model's set of answers cannot be decoded; out of memory, or another failure of libtorch.
    pub fn new(
        model: &Model,
        vocabulary: &'a dyn Vocabulary,
        cx: &EvalContext<'a>,
        rows: usize,
    ) -> Result<Self, SessionError> {
        let &EvalContext { forward, params, step, .. } = cx;
        let prediction = model.prediction_spec()?.prediction_in(vocabulary)?;
        let hypotheses = rows * prediction.num_decodes;
        let predict =
            forward.guarded(step, || forward.predicting().predictor(params, hypotheses))?;
        Ok(Self { forward, step, predict, prediction, vocabulary })
    }

    /// Returns the text of the best sequence of every row.
    ///
    /// # Errors
    /// The prediction's parameters contradict each other, or libtorch fails.
    pub fn predict(&self, batch: &data::Batch) -> Result<Vec<String>, SessionError> {
        let best = |row: &Vec<Hypothesis>| {
            let best = row.last().expect("every row has a sequence");
            self.prediction.text_of(&best.ids, self.vocabulary)
        };
        Ok(self.hypotheses(batch)?.iter().map(best).collect())
    }

    /// Returns the sequences of every row, worst to best.
    ///
    /// # Errors
    /// The prediction's parameters contradict each other, or libtorch fails.
    pub fn hypotheses(&self, batch: &data::Batch) -> Result<Vec<Vec<Hypothesis>>, SessionError> {
        let decodes = self.forward.guarded(self.step, || {
            let batch = Batch::from_host(batch).to_device(self.forward.device);
            let decodes = self.predict.predict(&batch, &self.prediction)?;
            Ok(Decodes {
                sequences: decodes.sequences.to_kind(Kind::Int).to_device(Device::Cpu),
                scores: decodes.scores.to_kind(Kind::Double).to_device(Device::Cpu),
            })
        })?;
        let decodes =
            decodes.map_err(|error: DecodeError| SessionError::Unfit(error.to_string()))?;
        let is_answer =
            |it: &Hypothesis| self.prediction.constraint.is_none() || Decodes::is_answer(it.score);
        let hypotheses = |row| hypotheses_of(&decodes, row).filter(is_answer).collect();
        Ok((0..decodes.sequences.size()[0]).map(hypotheses).collect())
    }
}

/// Returns the sequences of a row of decodes on the host.
fn hypotheses_of(decodes: &Decodes, row: i64) -> impl Iterator<Item = Hypothesis> {
    let sequences = decodes.sequences.get(row);
    let scores = Vec::<f64>::try_from(decodes.scores.get(row)).expect("scores are vectors");
    let hypothesis = move |(index, score)| {
        let ids = Vec::try_from(sequences.get(index)).expect("sequences are vectors");
        Hypothesis { ids, score }
    };
    (0..).zip(scores).map(hypothesis)
}
