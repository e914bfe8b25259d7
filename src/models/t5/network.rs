//! T5 behind the interface of networks.

use tch::Tensor;

use super::model::T5;
use super::predict::Predictor;
use crate::models::decoding::{DecodeError, Decodes, Prediction};
use crate::models::loss::{LossOutput, LossSpec};
use crate::models::{Batch, Network, Predict};
use crate::nn::{Dropout, Params};

impl Network for T5 {
    fn dropout(&self) -> Dropout {
        Dropout::train(self.config().dropout_rate)
    }

    fn loss(
        &self,
        params: &Params,
        batch: &Batch,
        spec: &LossSpec,
        dropout: Dropout,
    ) -> LossOutput {
        T5::loss(self, params, batch, spec, dropout)
    }

    fn score_batch(&self, params: &Params, batch: &Batch) -> Tensor {
        T5::score_batch(self, params, batch)
    }

    fn predictor<'a>(&'a self, params: &'a Params, hypotheses: usize) -> Box<dyn Predict + 'a> {
        Box::new(T5::predictor(self, params, hypotheses))
    }
}

impl Predict for Predictor<'_> {
    /// Encodes the inputs.
    fn prefill(&self, batch: &Batch) {
        let _ = tch::no_grad(|| self.encode(&batch.encoder_input_tokens));
    }

    fn predict(&self, batch: &Batch, prediction: &Prediction) -> Result<Decodes, DecodeError> {
        Predictor::predict(self, batch, prediction)
    }
}
