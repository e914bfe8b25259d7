//! The memory that a training step needs, on one process of a mesh.

use crate::models::Model;
use crate::models::memory::{Estimate, Gradients, StepShape};
use crate::nn::{ParamSpec, Shard};
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
    batch: StepShape,
    num_microbatches: usize,
    mesh: &Mesh,
) -> Result<Estimate, UnfitSpec> {
    let parts = num_microbatches * mesh.data().size;
    let shape = StepShape { rows: batch.rows / parts, ..batch };
    let slots = state_variables(model).map_err(|error| UnfitSpec(error.to_string()))?;
    let numbers: usize = slots.iter().map(|slot| slot.shape.iter().product::<usize>()).sum();
    let params = model.param_tree();
    let is_divided = |param: &ParamSpec| {
        mesh.state_shard(&param.axes, &param.shape).axes.iter().any(Option::is_some)
    };
    let waits = model.optimizer_def().waits_for_all(params.iter().any(is_divided));
    let together = num_microbatches > 1 || waits;
    let gradients = if together { Gradients::Together } else { Gradients::OneByOne };
    let whole = model.estimate(4 * numbers as u64, gradients, shape, mesh.local_device());
    let share = |part: &dyn Fn(&ParamSpec) -> Shard| {
        let own: usize =
            params.iter().map(|param| part(param).shape().iter().product::<usize>()).sum();
        own as f64 / model.num_params() as f64
    };
    let of_params = share(&|param| mesh.shard(&param.axes, &param.shape));
    let of_state = share(&|param| mesh.state_shard(&param.axes, &param.shape));
    let scaled = |bytes: u64, share: f64| (bytes as f64 * share) as u64;
    Ok(Estimate {
        parameters: scaled(whole.parameters, of_params),
        gradients: scaled(whole.gradients, of_params),
        optimizer: scaled(whole.optimizer, of_state),
        activations: whole.activations / mesh.model().size as u64,
    })
}
