//! The interface of networks: the tensors of a model. A network holds no weights: every method gets
//! them as [`Params`].

use std::fmt::Debug;

use tch::{Kind, Tensor};

use super::Batch;
use super::decoder_only::DecoderOnly;
use super::decoding::{DecodeError, Decodes, Observer, Prediction};
use super::loss::{LossOutput, LossSpec};
use super::spec::Model;
use super::t5::T5;
use super::transformer::TransformerSpec;
use crate::nn::{Dropout, Params, TransformerEngineConfig};

/// A network of any family.
pub trait Network: Debug {
    /// The dropout to train with.
    fn dropout(&self) -> Dropout;

    /// The training loss of `batch` and the sums for its metrics.
    fn loss(&self, params: &Params, batch: &Batch, spec: &LossSpec, dropout: Dropout)
    -> LossOutput;

    /// Log-likelihood of each target, weighted, without smoothing or z-loss: float32 `[batch, length]`.
    fn token_scores(&self, params: &Params, batch: &Batch) -> Tensor;

    /// The sum of each row's [token scores](Self::token_scores): float32 `[batch]`.
    fn score_batch(&self, params: &Params, batch: &Batch) -> Tensor {
        self.token_scores(params, batch).sum_dim_intlist(-1, false, Kind::Float)
    }

    /// Lays weights out for decoding batches of about so many hypotheses, which is rows times decodes.
    fn predictor<'a>(&'a self, params: &'a Params, hypotheses: usize) -> Box<dyn Predict + 'a>;

    /// Predicts with a predictor for this batch alone. Source: T5X `models.py`.
    ///
    /// # Errors
    /// The prediction's parameters contradict each other.
    fn predict_batch_with_aux(
        &self,
        params: &Params,
        batch: &Batch,
        prediction: &Prediction,
    ) -> Result<Decodes, DecodeError> {
        let hypotheses = batch.num_rows() as usize * prediction.num_decodes;
        self.predictor(params, hypotheses).predict(batch, prediction)
    }
}

/// Decodes many batches with the same weights.
pub trait Predict {
    /// Computes what precedes the first step of decoding `batch`, to measure its time.
    fn prefill(&self, batch: &Batch);

    /// Sequences for every row of `batch`, worst to best, as long as its targets. Sampling draws from
    /// torch's generator.
    ///
    /// # Errors
    /// The prediction's parameters contradict each other.
    fn predict(&self, batch: &Batch, prediction: &Prediction) -> Result<Decodes, DecodeError> {
        self.predict_observed(batch, prediction, &mut ())
    }

    /// Predicts in the same way, and tells `observer` about each step, which may end the decoding.
    ///
    /// # Errors
    /// The prediction's parameters contradict each other.
    fn predict_observed(
        &self,
        batch: &Batch,
        prediction: &Prediction,
        observer: &mut dyn Observer,
    ) -> Result<Decodes, DecodeError>;
}

impl Model {
    /// The network, with projections in fp8 if `fp8` is given.
    pub fn network(&self, fp8: Option<&TransformerEngineConfig>) -> Box<dyn Network> {
        match self {
            Self::EncoderDecoderModel(_) | Self::MoeEncoderDecoderModel(_) => {
                let spec = self.transformer();
                let fp8 = fp8.cloned().or(spec.fp8.clone());
                Box::new(T5::new(TransformerSpec { fp8, ..spec }))
            }
            Self::DecoderOnlyModel(model) => {
                self.decoder(model.shared.inputs_bidirectional_attention, fp8)
            }
            Self::MoeDecoderOnlyModel(model) => {
                self.decoder(model.shared.inputs_bidirectional_attention, fp8)
            }
        }
    }

    fn decoder(
        &self,
        inputs_bidirectional_attention: bool,
        fp8: Option<&TransformerEngineConfig>,
    ) -> Box<dyn Network> {
        let spec = TransformerSpec { fp8: fp8.cloned(), ..self.transformer() };
        Box::new(DecoderOnly::of(spec, inputs_bidirectional_attention))
    }
}
