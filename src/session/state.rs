//! The training state, which a step changes: parameters, optimizer state and the step count.

use crate::models::Model;
use crate::nn::{ParamSpec, Params, draw};
use crate::optim::{OptimError, Optimizer, ParamShape};
use crate::partition::Mesh;

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
    pub fn initialize(model: &Model, seed: u64, mesh: &Mesh) -> Result<Self, OptimError> {
        let specs = model.param_tree();
        let shapes: Vec<ParamShape<'_>> = specs.iter().map(param_shape).collect();
        let optimizer = Optimizer::new(model.optimizer_def(), &shapes, mesh.device())?;
        Ok(Self { step: 0, params: draw_params(&specs, seed, mesh), optimizer })
    }
}

/// Draws this process's parts of new parameters. Their values are those of whole parameters, whatever
/// the mesh.
pub fn draw_params(specs: &[ParamSpec], seed: u64, mesh: &Mesh) -> Params {
    let seed = derive(seed, Purpose::Initialization, &[]);
    let parts = specs.iter().map(|spec| {
        let shard = mesh.shard(&spec.axes, &spec.shape);
        (spec.name.clone(), shard.of(&draw(spec, seed, mesh.device())))
    });
    Params::from_tensors(parts)
}
