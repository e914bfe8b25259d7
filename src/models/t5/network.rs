//! T5 behind the interface of networks: loss, scores and predictions.

use tch::{Kind, Tensor};

use super::model::T5;
use super::predict::Predictor;
use crate::models::decoding::{DecodeError, Decodes, Prediction};
use crate::models::loss::{
    LossOutput, LossSpec, TargetSums, Targets, UnreadSums, cross_entropy, log_likelihoods,
    normalize,
};
use crate::models::{Batch, Network, Predict};
use crate::nn::profiler::{Activity, part};
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
        let head = self.head(params, self.hidden(params, batch, dropout));
        let _part = part(Activity::Loss);
        let normalized = normalize(spec.loss_normalizing_factor, batch);
        let weights = normalized.weights.reshape(-1);
        let coefficients = match &normalized.factor {
            Some(factor) => &weights / factor,
            None => weights.shallow_clone(),
        };
        let tokens = batch.decoder_target_tokens.reshape(-1);
        let targets = Targets { tokens, coefficients };
        let (losses, scalar) = cross_entropy(&head, &targets, spec);
        let loss = losses.loss.dot(&targets.coefficients);
        // T5X's metrics count targets with any weight, independently of its size.
        let counted = weights.ne(0).to_kind(Kind::Float);
        let sums = TargetSums {
            z_loss: losses.z_loss.dot(&targets.coefficients),
            correct: losses.correct.dot(&counted),
            num_weighted_tokens: counted.sum(Kind::Float),
            weight_sum: weights.sum(Kind::Float),
            loss: loss.shallow_clone(),
        };
        let sums = UnreadSums::new(batch, &sums);
        // The value of the loss with the gradient of the scalar.
        LossOutput { loss: &scalar + (loss - scalar.detach()), sums }
    }

    fn score_batch(&self, params: &Params, batch: &Batch) -> Tensor {
        tch::no_grad(|| {
            let head = self.head(params, self.hidden(params, batch, Dropout::off()));
            let tokens = batch.decoder_target_tokens.reshape(-1);
            let scores = log_likelihoods(&head, &tokens).view_as(&batch.decoder_loss_weights);
            (scores * &batch.decoder_loss_weights).sum_dim_intlist(-1, false, Kind::Float)
        })
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
