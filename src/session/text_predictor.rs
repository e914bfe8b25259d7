//! Decodes batches of examples to texts.

use tch::{Device, Kind, Tensor};

use crate::data;
use crate::models::decoding::Prediction;
use crate::models::{Batch, Model, Predict};
use crate::vocab::Vocabulary;

use super::error::SessionError;
use super::eval_context::EvalContext;
use super::forward::Forward;

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
    /// Out of memory, or another failure of libtorch.
    pub fn new(
        model: &Model,
        vocabulary: &'a dyn Vocabulary,
        cx: &EvalContext<'a>,
        rows: usize,
    ) -> Result<Self, SessionError> {
        let &EvalContext { forward, params, step, .. } = cx;
        let eos_id = i64::from(vocabulary.eos_id().unwrap_or(1));
        let prediction = model.prediction(eos_id);
        let hypotheses = rows * prediction.num_decodes;
        let predict = forward.guarded(step, || forward.network.predictor(params, hypotheses))?;
        Ok(Self { forward, step, predict, prediction, vocabulary })
    }

    /// Returns the text of the best sequence of every row.
    ///
    /// # Errors
    /// The prediction's parameters contradict each other, or libtorch fails.
    pub fn predict(&self, batch: &data::Batch) -> Result<Vec<String>, SessionError> {
        let decodes = self.forward.guarded(self.step, || {
            let batch = Batch::from_host(batch).to_device(self.forward.device);
            self.predict.predict(&batch, &self.prediction)
        })?;
        let decodes = decodes.map_err(|error| SessionError::Unfit(error.to_string()))?;
        Ok(rows_of(&decodes.best().0).iter().map(|ids| self.vocabulary.decode(ids)).collect())
    }
}

/// Returns the rows of an int64 matrix.
fn rows_of(matrix: &Tensor) -> Vec<Vec<i32>> {
    let matrix = matrix.to_kind(Kind::Int).to_device(Device::Cpu);
    let row = |index| Vec::<i32>::try_from(matrix.get(index)).expect("rows are vectors");
    (0..matrix.size()[0]).map(row).collect()
}
