//! The memory that a training step needs, on one process of a mesh.

use crate::models::Model;
use crate::models::memory::{Estimate, Gradients, Held, StepShape};
use crate::nn::{Dtype, MeshDim, ParamSpec, Shard};
use crate::partition::Mesh;

use super::check::UnfitSpec;
use super::state_layout::state_variables;

/// Estimates the memory of a training step on batches of that shape, in so many parts. Activations count as if all of
/// them were divided over the model axis, and layers that are gathered for their passes do not count: the estimate is low then.
///
/// # Errors
/// The optimizer's rules do not cover a parameter.
pub fn step_estimate(
    model: &Model,
    batch: &StepShape,
    num_microbatches: usize,
    mesh: &Mesh,
) -> Result<Estimate, UnfitSpec> {
    let shape = batch.divided(num_microbatches, mesh.data().size);
    let slots = state_variables(model).map_err(|error| UnfitSpec(error.to_string()))?;
    let numbers: usize = slots.iter().map(|slot| slot.shape.iter().product::<usize>()).sum();
    let params = model.param_tree();
    let is_divided = |param: &ParamSpec| {
        mesh.state_shard(&param.axes, &param.shape).axes.iter().any(Option::is_some)
    };
    let waits = model.optimizer_def().waits_for_all(params.iter().any(is_divided));
    // A scale of the loss waits for all gradients.
    let together = num_microbatches > 1 || waits || model.dtype() == Dtype::Float16;
    let gradients = if together { Gradients::Together } else { Gradients::OneByOne };
    let count = |part: Shard| part.shape().iter().product::<usize>() as u64;
    let updated = params.iter().map(|param| count(mesh.state_shard(&param.axes, &param.shape)));
    let of_state = updated.sum::<u64>() as f64 / model.num_params() as f64;
    let own = |param: &ParamSpec| count(mesh.shard(&param.axes, &param.shape));
    let state = (4.0 * numbers as f64 * of_state) as u64;
    let spread =
        |param: &ParamSpec| mesh.shard(&param.axes, &param.shape).dim(MeshDim::Data).is_some();
    let held = Held {
        are_spread: params.iter().any(spread),
        ..Held::of(&params, &own, &*model.optimizer_def().choice(), state)
    };
    let whole = model.estimate(held, gradients, &shape, mesh.local_device());
    Ok(Estimate { activations: whole.activations / mesh.model().size as u64, ..whole })
}
