//! The model without updates: losses of held-out batches, and the environment of predictions.

use tch::{Device, Kind};

use crate::data;
use crate::metrics::LossSums;
use crate::models::heads::LossSpec;
use crate::models::{Batch, FillingNetwork, Model, Network, PredictingNetwork};
use crate::nn::{Dropout, Params, TransformerEngineConfig};
use crate::partition::Mesh;

use super::check::{UnfitSpec, check_dtype};
use super::error::SessionError;
use super::guard::{TorchFailure, guarded};

/// Tokens for one place with their log-likelihoods: the target, and then the most probable ones.
pub type TokenScores = Vec<(i32, f64)>;

/// Measures losses and runs predictions, which change none of its fields.
#[derive(Debug)]
pub struct Forward {
    /// The network.
    pub network: Box<dyn Network>,
    /// The loss of the training.
    pub loss: LossSpec,
    /// The device of the parameters.
    pub device: Device,
}

impl Forward {
    /// Creates it for a model, on one device; `fp8` replaces the model's own setting.
    ///
    /// # Errors
    /// The device does not compute in the format of the model's activations.
    pub fn new(
        model: &Model,
        fp8: Option<&TransformerEngineConfig>,
        mesh: &Mesh,
    ) -> Result<Self, UnfitSpec> {
        check_dtype(model, mesh.local_device())?;
        let network = model.network(fp8);
        let (says, does) = (model.predicts().is_some(), network.predicting().is_some());
        assert_eq!(says, does, "`predicts` and `predicting` of {} agree", model.name());
        Ok(Self { network, loss: model.loss_spec(), device: mesh.device() })
    }

    /// The network with what predicting asks of it.
    ///
    /// # Panics
    /// The model makes no predictions, which `prediction_spec` tells.
    pub fn predicting(&self) -> &dyn PredictingNetwork {
        self.network.predicting().expect("the model makes predictions")
    }

    /// The network with what restoring masked tokens asks of it.
    ///
    /// # Panics
    /// The model restores none, which `fill_spec` tells.
    pub fn filling(&self) -> &dyn FillingNetwork {
        self.network.filling().expect("the model restores masked tokens")
    }

    /// Computes the loss of a held-out batch, without dropout.
    ///
    /// # Errors
    /// Out of memory, or another failure of libtorch.
    pub fn eval_step(
        &self,
        params: &Params,
        step: u64,
        batch: &Batch,
    ) -> Result<LossSums, SessionError> {
        self.guarded(step, || {
            tch::no_grad(|| {
                let batch = batch.to_device(self.device);
                self.network.loss(params, &batch, &self.loss, Dropout::off()).sums.read()
            })
        })
    }

    /// Computes the log-likelihood of every row's targets.
    ///
    /// # Errors
    /// Out of memory, or another failure of libtorch.
    pub fn score(
        &self,
        params: &Params,
        step: u64,
        batch: &data::Batch,
    ) -> Result<Vec<f64>, SessionError> {
        let scores = self.guarded(step, || {
            let batch = Batch::from_host(batch).to_device(self.device);
            self.predicting().score_batch(params, &batch)
        })?;
        Ok(Vec::try_from(scores.to_kind(Kind::Double)).expect("scores are one vector"))
    }

    /// Computes the log-likelihood of every row's targets, and of each target.
    ///
    /// # Errors
    /// Out of memory, or another failure of libtorch.
    pub fn token_scores(
        &self,
        params: &Params,
        step: u64,
        batch: &data::Batch,
    ) -> Result<Vec<(f64, Vec<f64>)>, SessionError> {
        let [sums, scores] = self.guarded(step, || {
            let batch = Batch::from_host(batch).to_device(self.device);
            let scores = self.predicting().token_scores(params, &batch);
            let sums = scores.sum_dim_intlist(-1, false, Kind::Float);
            [sums, scores].map(|tensor| tensor.to_kind(Kind::Double).to_device(Device::Cpu))
        })?;
        let sums = Vec::<f64>::try_from(&sums).expect("scores are one vector").into_iter();
        let rows = (0..).zip(sums).map(|(row, sum)| {
            (sum, Vec::try_from(scores.get(row)).expect("scores of a row are a vector"))
        });
        Ok(rows.collect())
    }

    /// Computes the log-likelihood of each target of every row, and of the `count` most probable tokens in its place.
    ///
    /// # Errors
    /// Out of memory, or another failure of libtorch.
    pub fn scored_targets(
        &self,
        params: &Params,
        step: u64,
        batch: &data::Batch,
        count: usize,
    ) -> Result<Vec<Vec<TokenScores>>, SessionError> {
        let found = self.guarded(step, || {
            let device_batch = Batch::from_host(batch).to_device(self.device);
            let network = self.predicting();
            let scored = network.scored_targets(params, &device_batch, count as i64);
            let width = scored.tokens.size()[1] as usize;
            let [tokens, log_probs] = [scored.tokens, scored.log_probs]
                .map(|tensor| tensor.to_device(Device::Cpu).to_kind(Kind::Double).reshape(-1));
            (width, tokens, log_probs)
        })?;
        let (width, tokens, log_probs) = found;
        let vector = |tensor| Vec::<f64>::try_from(tensor).expect("a tensor becomes a vector");
        let pairs: Vec<(i32, f64)> =
            vector(tokens).into_iter().map(|id| id as i32).zip(vector(log_probs)).collect();
        let places: Vec<TokenScores> = pairs.chunks(width).map(<[_]>::to_vec).collect();
        let length = places.len() / batch.rows;
        Ok(places.chunks(length).map(<[_]>::to_vec).collect())
    }

    /// Runs `body` with the parameters of a step, and converts failures to errors.
    ///
    /// # Errors
    /// Out of memory, or another failure of libtorch.
    pub fn guarded<R>(&self, step: u64, body: impl FnOnce() -> R) -> Result<R, SessionError> {
        guarded(body).map_err(|failure| match failure {
            TorchFailure::OutOfMemory(detail) => {
                let remedy = "lower batch_size of the utils.DatasetConfig that is evaluated";
                SessionError::OutOfMemory { step, detail, remedy: remedy.to_string() }
            }
            TorchFailure::Other(detail) => SessionError::Torch { step, detail },
        })
    }
}
