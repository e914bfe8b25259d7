//! What a step changes: parameters, optimizer state and the step count.

use tch::Device;

use crate::models::Model;
use crate::nn::{ParamSpec, Params};
use crate::optim::{OptimError, Optimizer, ParamShape};

use super::model_info::Variable;
use super::seeds::{Purpose, derive};

/// What a step changes (T5X `train_state.py`).
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
    /// Fresh parameters and optimizer state at step 0.
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

/// A parameter as the optimizer sees it.
pub fn param_shape(spec: &ParamSpec) -> ParamShape<'_> {
    ParamShape { name: &spec.name, shape: &spec.shape, axes: &spec.axes }
}

/// The optimizer's arrays under T5X's names (`param_states/{parameter}/{slot}`), then `step`,
/// for `model-info.txt`.
///
/// # Errors
/// A parameter that the optimizer's rules do not cover.
pub fn state_variables(model: &Model) -> Result<Vec<Variable>, OptimError> {
    let mut out = Vec::new();
    for spec in model.param_tree() {
        let layout = model.optimizer_def().layout(param_shape(&spec))?;
        for slot in layout.slots {
            let axes = if slot.shape == spec.shape { spec.axes.clone() } else { Vec::new() };
            let name = format!("param_states/{}/{}", spec.name, slot.name);
            out.push(Variable { name, shape: slot.shape, axes });
        }
    }
    out.push(Variable { name: "step".to_string(), shape: Vec::new(), axes: Vec::new() });
    Ok(out)
}
