//! T5 behind the interface of networks: loss, scores and predictions.

use tch::Tensor;

use super::model::T5;
use super::predict::Predictor;
use crate::models::loss::{LossOutput, LossSpec, target_loss, target_scores};
use crate::models::{Batch, Network, Predict};
use crate::nn::{Dropout, Params};

impl Network for T5 {
    fn dropout(&self) -> Dropout {
        Dropout::train(self.spec.dropout_rate)
    }

    fn loss(
        &self,
        params: &Params,
        batch: &Batch,
        spec: &LossSpec,
        dropout: Dropout,
    ) -> LossOutput {
        let (head, reports) = self.head(params, batch, dropout);
        target_loss(&head, &reports, batch, spec)
    }

    fn token_scores(&self, params: &Params, batch: &Batch) -> Tensor {
        tch::no_grad(|| target_scores(&self.head(params, batch, Dropout::off()).0, batch))
    }

    fn predictor<'a>(&'a self, params: &'a Params, hypotheses: usize) -> Box<dyn Predict + 'a> {
        Box::new(Predictor::new(self, params, hypotheses))
    }
}
