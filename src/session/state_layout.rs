//! The arrays of a training state, named and shaped without torch.

use crate::checkpoint::{Shapes, TARGET};
use crate::models::Model;
use crate::nn::ParamSpec;
use crate::optim::{OptimError, ParamShape};

use super::model_info::Variable;

/// Returns the name of a parameter in T5X's tree.
pub fn target(name: &str) -> String {
    format!("{TARGET}{name}")
}

/// Returns the shape of every array of a model's training state, under T5X's names.
///
/// # Errors
/// A parameter that the optimizer's rules do not cover.
pub fn state_shapes(model: &Model) -> Result<Shapes, OptimError> {
    let params = model.param_tree().into_iter().map(|param| (target(&param.name), param.shape));
    let variables = state_variables(model)?.into_iter();
    let variables = variables.map(|variable| (format!("state/{}", variable.name), variable.shape));
    Ok(params.chain(variables).collect())
}

/// Describes a parameter for the optimizer.
pub fn param_shape(spec: &ParamSpec) -> ParamShape<'_> {
    ParamShape { name: &spec.name, shape: &spec.shape, axes: &spec.axes }
}

/// Returns the optimizer's arrays under T5X's names (`param_states/...`), then `step`,
/// for `model-info.txt`.
///
/// # Errors
/// A parameter that the optimizer's rules do not cover.
pub fn state_variables(model: &Model) -> Result<Vec<Variable>, OptimError> {
    let (optimizer, mut out) = (model.optimizer_def(), Vec::new());
    for spec in model.param_tree() {
        let layout = optimizer.layout(param_shape(&spec))?;
        for slot in layout.slots {
            let axes = if slot.shape == spec.shape { spec.axes.clone() } else { Vec::new() };
            let name = format!("param_states/{}", optimizer.path(&spec.name, slot.name));
            out.push(Variable { name, shape: slot.shape, axes });
        }
    }
    for path in optimizer.count_paths() {
        let name = format!("param_states/{path}");
        out.push(Variable { name, shape: Vec::new(), axes: Vec::new() });
    }
    out.sort_by(|a, b| a.name.cmp(&b.name));
    out.push(step_variable());
    Ok(out)
}

/// Returns the variable with the count of updates.
pub fn step_variable() -> Variable {
    Variable { name: "step".to_string(), shape: Vec::new(), axes: Vec::new() }
}
