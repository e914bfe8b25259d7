//! The training state, which a step changes: parameters, optimizer state and the step count.

use tch::Device;

use crate::models::Model;
use crate::nn::Params;
use crate::optim::{OptimError, Optimizer, ParamShape};

use super::seeds::{Purpose, derive};
use super::state_layout::param_shape;

/// The training state, which a step changes (T5X `train_state.py`).
#[derive(Debug)]
pub struct TrainState {
    /// Updates made so far.
    pub step: u64,
    /// Parameters, float32.
    pub params: Params,
    /// The optimizer with its state.
    pub optimizer: Optimizer,
}

impl TrainState {
    /// Creates new parameters and optimizer state at step 0.
    ///
    /// # Errors
    /// A parameter that the optimizer's rules do not cover.
    pub fn initialize(model: &Model, seed: u64, device: Device) -> Result<Self, OptimError> {
        let specs = model.param_tree();
        let seed = derive(seed, Purpose::Initialization, &[]);
        let shapes: Vec<ParamShape<'_>> = specs.iter().map(param_shape).collect();
        let optimizer = Optimizer::new(model.optimizer_def(), &shapes, device)?;
        Ok(Self { step: 0, params: Params::init(&specs, seed, device), optimizer })
    }
}
