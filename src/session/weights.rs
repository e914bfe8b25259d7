//! Reads the parameters of one checkpoint after another to a device.

use tch::Tensor;

use crate::checkpoint::{DType, Plan};
use crate::models::Model;
use crate::nn::{ParamSpec, Params, kind};
use crate::partition::{LocalDevice, Mesh};
use crate::storage::Path;
use crate::telemetry::{self, available_on_host};

use super::error::SessionError;
use super::guard::{TorchFailure, guarded};
use super::memory::parameter_shortage;
use super::restored_params::RestoredParams;
use super::state::draw_params;
use super::state_arrays::fill_params;
use super::state_layout::target;

/// Reads the parameters of checkpoints.
pub struct Weights {
    wanted: RestoredParams,
    params: Vec<ParamSpec>,
    /// Seed of parameters that a checkpoint does not have, if they may be initialized.
    seed: u64,
    mesh: Mesh,
}

/// Refuses a model that exceeds the host's memory, which could end the process without a message.
///
/// # Errors
/// The parameters alone need more memory than there is.
pub fn refuse_shortage(model: &Model, mesh: &Mesh) -> Result<(), SessionError> {
    let available = available_on_host().filter(|_| mesh.local_device() == LocalDevice::Cpu);
    let message = available.and_then(|available| parameter_shortage(model, available));
    message.map_or(Ok(()), |message| Err(SessionError::Unfit(message)))
}

/// The parameters of a step.
pub struct Restored {
    /// The step; 0 if the checkpoint's format has none.
    pub step: u64,
    /// The parameters.
    pub params: Params,
}

impl Weights {
    /// Creates a reader for a model. `seed` is that of parameters that a checkpoint does not have.
    pub fn new(model: &Model, wanted: RestoredParams, seed: Option<i64>, mesh: Mesh) -> Self {
        Self { wanted, params: model.param_tree(), seed: seed.unwrap_or(0) as u64, mesh }
    }

    /// Reads the parameters of a checkpoint.
    ///
    /// # Errors
    /// It is missing, damaged or another model's, or memory runs out.
    pub fn restore(&self, path: &Path) -> Result<Restored, SessionError> {
        let stored = self.wanted.open(path)?;
        let plan = self.wanted.plan(stored.as_ref())?;
        let params = guarded(|| self.allocate(&plan)).map_err(|failure| match failure {
            TorchFailure::OutOfMemory(detail) => SessionError::ModelTooLarge { detail },
            TorchFailure::Other(detail) => SessionError::Torch { step: 0, detail },
        })?;
        let dtype = self.wanted.config.dtype.map(DType::from);
        fill_params(&params, stored.as_ref(), &plan, dtype)?;
        self.wanted.given(&plan).fill(&params, self.seed)?;
        for notice in plan.notices() {
            telemetry::notice(&notice);
        }
        Ok(Restored { step: stored.step()?, params })
    }

    /// Allocates every parameter; those that the checkpoint does not have are drawn.
    fn allocate(&self, plan: &Plan) -> Params {
        let is_lacking = |param: &&ParamSpec| plan.from_scratch.contains(&target(&param.name));
        let (lacking, stored): (Vec<&ParamSpec>, Vec<&ParamSpec>) =
            self.params.iter().partition(is_lacking);
        let lacking: Vec<ParamSpec> = lacking.into_iter().cloned().collect();
        let drawn = draw_params(&lacking, self.seed, &self.mesh);
        let drawn = drawn.iter().map(|(name, tensor)| (name.to_string(), tensor.shallow_clone()));
        let empty = stored.into_iter().map(|param| {
            let part = self.mesh.shard(&param.axes, &param.shape).shape();
            let shape: Vec<i64> = part.into_iter().map(|extent| extent as i64).collect();
            (param.name.clone(), Tensor::zeros(shape, (kind(param.dtype), self.mesh.device())))
        });
        Params::from_tensors(drawn.chain(empty).collect::<Vec<_>>())
    }
}
