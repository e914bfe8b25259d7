//! The training state, which a step changes: parameters, optimizer state and the step count.

use tch::{Device, Kind, Tensor};

use crate::checkpoint::LossScaling;
use crate::models::Model;
use crate::nn::{Axes, Axis, Division, MeshDim, ParamSpec, Params, Shard, draw};
use crate::optim::{OptimError, Optimizer, OwnPart, ParamShape};
use crate::partition::Mesh;

use super::seeds::{Purpose, derive};
use super::state_layout::param_shape;

/// The training state, which a step changes (T5X `train_state.py`).
#[derive(Debug)]
pub struct TrainState {
    /// Steps made so far.
    pub step: u64,
    /// Parameters, float32.
    pub params: Params,
    /// The optimizer with its state.
    pub optimizer: Optimizer,
    /// The scale of the loss, if there is one.
    pub loss_scaling: LossScaling,
}

impl TrainState {
    /// Creates new parameters and optimizer state at step 0.
    ///
    /// # Errors
    /// A parameter that the optimizer's rules do not cover.
    pub fn initialize(
        model: &Model,
        seed: u64,
        mesh: &Mesh,
        axes: &Axes,
    ) -> Result<Self, OptimError> {
        let specs = model.param_tree();
        let shapes: Vec<ParamShape<'_>> = specs.iter().map(param_shape).collect();
        let peers = peers(&shapes, mesh, axes);
        let part = |param: &ParamShape<'_>| {
            let updated = mesh.state_shard(param.axes, param.shape);
            OwnPart::new(updated, &mesh.shard(param.axes, param.shape), &peers)
        };
        let def = model.optimizer_def();
        let optimizer = Optimizer::of_parts(def, &shapes, &part, mesh.device())?;
        let shard = |param: &ParamSpec| mesh.shard(&param.axes, &param.shape);
        let shards = specs.iter().map(|param| (param.name.clone(), shard(param))).collect();
        let division = Division::new(axes.clone(), mesh.splits_length(), shards);
        let params = draw_params(&specs, seed, mesh).divided(division);
        let is_trained = def.choice();
        let params = params.freeze(&|name| !is_trained(name));
        Ok(Self { step: 0, params, optimizer, loss_scaling: LossScaling::default() })
    }

    /// Returns the number of the next update, as schedules count: steps without an update do not count.
    pub fn next_update(&self) -> i64 {
        i64::try_from(self.step.saturating_sub(self.loss_scaling.skipped)).expect("steps fit")
    }
}

/// Returns the processes with which sums over parameters are shared: along an axis that divides some of them.
fn peers(params: &[ParamShape<'_>], mesh: &Mesh, axes: &Axes) -> Axes {
    let along = |name: MeshDim, axis: &Axis| {
        let divides = |param: &ParamShape<'_>| mesh.state_shard(param.axes, param.shape).dim(name);
        let divides = params.iter().any(|param| divides(param).is_some());
        if divides { axis.clone() } else { Axis::default() }
    };
    Axes { data: along(MeshDim::Data, &axes.data), model: along(MeshDim::Model, &axes.model) }
}

/// Draws this process's parts of new parameters. Their values are those of whole parameters, whatever
/// the mesh.
pub fn draw_params(specs: &[ParamSpec], seed: u64, mesh: &Mesh) -> Params {
    let seed = derive(seed, Purpose::Initialization, &[]);
    let shards: Vec<Shard> = specs.iter().map(|spec| mesh.shard(&spec.axes, &spec.shape)).collect();
    // All parts are allocated before the first whole parameter is drawn, so that no part lies in the hole that a whole
    // one leaves: a process of ZeRO-3 needs that hole again for each step's whole parameters.
    let parts: Vec<Tensor> = shards.iter().map(|shard| empty(shard, mesh.device())).collect();
    let filled = specs.iter().zip(&shards).zip(parts).map(|((spec, shard), mut part)| {
        part.copy_(&shard.of(&draw(spec, seed, mesh.device())));
        (spec.name.clone(), part)
    });
    Params::from_tensors(filled)
}

fn empty(shard: &Shard, device: Device) -> Tensor {
    let size: Vec<i64> = shard.shape().iter().map(|&extent| extent as i64).collect();
    Tensor::empty(size, (Kind::Float, device))
}
