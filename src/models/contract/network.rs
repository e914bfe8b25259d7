//! The interface of networks: the tensors of a model. A network holds no weights: every method gets
//! them as [`Params`].

use std::fmt::Debug;

use tch::{Kind, Tensor};

use super::features::Batch;
use crate::models::decoding::{DecodeError, Decodes, Observer, Prediction};
use crate::models::heads::{Divisors, Head, LossOutput, LossSpec, ScoredTokens};
use crate::nn::{Dropout, Params, TransformerEngineConfig};

/// A model whose network can be made.
pub trait HasNetwork {
    /// The network, with projections in fp8 if `fp8` is given.
    fn network(&self, fp8: Option<&TransformerEngineConfig>) -> Box<dyn Network>;
}

/// A network of any family, as training sees it.
pub trait Network: Debug {
    /// The dropout to train with.
    fn dropout(&self) -> Dropout;

    /// Names of the features that it reads ([`super::feature`]), for batches that `gimlet bench` makes. Those of segment ids are in
    /// packed batches alone.
    fn features(&self) -> &'static [&'static str];

    /// The loss of `batch`, which is a sum over the network's heads, and the sums for its metrics.
    fn loss(&self, params: &Params, batch: &Batch, spec: &LossSpec, dropout: Dropout)
    -> LossOutput;

    /// The divisors of the heads' losses over these rows, for computing the loss in parts.
    fn divisors(&self, batch: &Batch, spec: &LossSpec) -> Divisors;

    /// The network with what predicting asks of it; `None` if it makes no predictions.
    fn predicting(&self) -> Option<&dyn PredictingNetwork> {
        None
    }

    /// The network with what restoring masked tokens asks of it; `None` if it restores none.
    fn filling(&self) -> Option<&dyn FillingNetwork> {
        None
    }
}

/// A network that restores masked tokens.
pub trait FillingNetwork: Network {
    /// The logits of tokens at some positions, to be computed without dropout: int64 `[positions]` in the batch as one row.
    fn head_at(&self, params: &Params, batch: &Batch, positions: &Tensor) -> Head;
}

/// A network that scores targets and predicts them.
pub trait PredictingNetwork: Network {
    /// Log-likelihood of each target, weighted, without smoothing or z-loss: float32 `[batch, length]`.
    fn token_scores(&self, params: &Params, batch: &Batch) -> Tensor;

    /// The sum of each row's [token scores](Self::token_scores): float32 `[batch]`.
    fn score_batch(&self, params: &Params, batch: &Batch) -> Tensor {
        self.token_scores(params, batch).sum_dim_intlist(-1, false, Kind::Float)
    }

    /// Log-likelihood of each target, whatever its weight, and of the `count` most probable tokens in its place. Rows are
    /// `batch * length`.
    fn scored_targets(&self, params: &Params, batch: &Batch, count: i64) -> ScoredTokens;

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
