//! T5 behind the interface of networks: loss, scores and predictions.

use tch::Tensor;

use super::encoder_decoder::{EncoderDecoderModel, MoeEncoderDecoderModel};
use super::model::T5;
use super::predict::Predictor;
use crate::models::heads::{Divisors, LossOutput, LossSpec, TokenLogits};
use crate::models::{BaseModel, Batch, HasNetwork, Network, Predict, PredictingNetwork, feature};
use crate::nn::{Dropout, Params, TransformerEngineConfig};

impl HasNetwork for EncoderDecoderModel {
    fn network(&self, fp8: Option<&TransformerEngineConfig>) -> Box<dyn Network> {
        Box::new(T5::new(self.transformer().with_fp8(fp8)))
    }
}

impl HasNetwork for MoeEncoderDecoderModel {
    fn network(&self, fp8: Option<&TransformerEngineConfig>) -> Box<dyn Network> {
        Box::new(T5::new(self.transformer().with_fp8(fp8)))
    }
}

impl Network for T5 {
    fn dropout(&self) -> Dropout {
        Dropout::train(self.spec.dropout_rate)
    }

    fn features(&self) -> &'static [&'static str] {
        &[
            feature::ENCODER_INPUT_TOKENS,
            feature::ENCODER_SEGMENT_IDS,
            feature::DECODER_INPUT_TOKENS,
            feature::DECODER_TARGET_TOKENS,
            feature::DECODER_LOSS_WEIGHTS,
            feature::DECODER_SEGMENT_IDS,
        ]
    }

    fn loss(
        &self,
        params: &Params,
        batch: &Batch,
        spec: &LossSpec,
        dropout: Dropout,
    ) -> LossOutput {
        let (head, reports) = self.head(params, batch, dropout);
        TokenLogits::TARGETS.loss_with_routers(&head, &reports, batch, spec)
    }

    fn divisors(&self, batch: &Batch, spec: &LossSpec) -> Divisors {
        TokenLogits::TARGETS.divisors(batch, spec)
    }

    fn predicting(&self) -> Option<&dyn PredictingNetwork> {
        Some(self)
    }
}

impl PredictingNetwork for T5 {
    fn token_scores(&self, params: &Params, batch: &Batch) -> Tensor {
        tch::no_grad(|| {
            let (head, _) = self.head(params, batch, Dropout::off());
            TokenLogits::TARGETS.scores(&head, batch)
        })
    }

    fn predictor<'a>(&'a self, params: &'a Params, hypotheses: usize) -> Box<dyn Predict + 'a> {
        Box::new(Predictor::new(self, params, hypotheses))
    }
}
