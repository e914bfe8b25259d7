//! The bytes that a training step sends, by arithmetic alone. Sums of losses and of the optimizer's statistics, a few
//! numbers each, do not count.

use crate::nn::{MeshDim, ParamSpec, Shard, StateDtype};
use crate::partition::Mesh;
use crate::session::check::UnfitSpec;

use super::inputs::training_shape;
use super::spec::Train;

/// Bytes of a number of a parameter.
const NUMBER: f64 = 4.0;

/// The bytes that each process of a mesh sends in a step, by the axis along which they go.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Traffic {
    /// Activations and their gradients.
    pub model: f64,
    /// Parameters and their gradients.
    pub data: f64,
    /// Tokens on their way to experts and back, and their gradients, along the data axis.
    pub experts: f64,
}

/// Returns the bytes that each process of a mesh sends in a step.
///
/// # Errors
/// A length is not bound.
pub fn bytes_sent(train: &Train, mesh: &Mesh) -> Result<u64, UnfitSpec> {
    let Traffic { model, data, experts } = traffic(train, mesh)?;
    Ok((model + data + experts).round() as u64)
}

/// Returns the bytes that each process of a mesh sends in a step, if a sum of b bytes over n processes sends
/// 2 b (n - 1) / n, as rings do, and a gather, a scatter or an exchange half of that.
///
/// # Errors
/// A length is not bound.
pub fn traffic(train: &Train, mesh: &Mesh) -> Result<Traffic, UnfitSpec> {
    let trainer = train.trainer_cls.0.trainer();
    let parts = trainer.num_microbatches();
    let batch = training_shape(train)?;
    let shape = batch.divided(parts, mesh.data().size);
    let params = train.model.param_tree();
    let shards: Vec<Shard> = params.iter().map(|param| shard(mesh, param)).collect();
    let are_spread = shards.iter().any(|part| part.dim(MeshDim::Data).is_some() && !part.stays);
    let are_experts_divided = shards.iter().any(|part| part.stays);
    let spec = train.model.transformer();
    let is_trained = train.model.optimizer_def().choice();
    let layout = (mesh.splits_length(), are_spread);
    let summed = spec.summed_bytes(&shape, layout, &*is_trained);
    let exchanged = if are_experts_divided { spec.exchanged_bytes(&shape) } else { 0.0 };
    let of_params = params
        .iter()
        .map(|param| of_param(train, mesh, (param, is_trained(&param.name)), parts as f64));
    Ok(Traffic {
        model: ring(mesh.model().size) * summed * parts as f64,
        data: of_params.sum::<f64>(),
        experts: ring(mesh.data().size) / 2.0 * exchanged * parts as f64,
    })
}

/// Bytes that a sum of one byte sends.
fn ring(count: usize) -> f64 {
    2.0 * (count as f64 - 1.0) / count as f64
}

fn shard(mesh: &Mesh, param: &ParamSpec) -> Shard {
    mesh.shard(&param.axes, &param.shape)
}

/// Returns the bytes of a parameter, and of its gradient if it is trained, along the data axis.
fn of_param(
    train: &Train,
    mesh: &Mesh,
    (param, is_trained): (&ParamSpec, bool),
    num_microbatches: f64,
) -> f64 {
    let pjit = train.partitioner.pjit();
    let (held, updated) = (shard(mesh, param), mesh.state_shard(&param.axes, &param.shape));
    // Parts that are sent are as large as the first one.
    let sent = |part: &Shard| -> f64 {
        let extents = part.whole.iter().zip(part.ranges.iter().zip(&part.axes).zip(&part.counts));
        let along = extents.map(|(whole, ((range, axis), count))| match axis {
            Some(MeshDim::Data) => whole.div_ceil(*count),
            _ => range.len(),
        });
        along.map(|extent| extent as f64).product::<f64>() * NUMBER
    };
    let others = mesh.data().size as f64 - 1.0;
    match (held.dim(MeshDim::Data), updated.dim(MeshDim::Data)) {
        (Some(_), _) if held.stays => 0.0,
        (Some(_), _) => {
            let is_of_layer = param.name.contains("/layers_");
            let is_read_twice =
                train.model.transformer().tokens.logits.is_none() && param.axes.contains(&"vocab");
            // A layer's parameters are gathered twice, and those beside layers at each use. Gradients are scattered once for a
            // layer, and once for each use of others.
            let times = match (is_of_layer, is_read_twice, is_trained) {
                (true, _, true) => 3.0,
                (true, _, false) => 2.0,
                (false, true, true) => 4.0,
                (false, true, false) | (false, false, true) => 2.0,
                (false, false, false) => 1.0,
            };
            times * others * sent(&held) * num_microbatches
        }
        (None, _) if !is_trained => 0.0,
        (None, Some(_)) => 2.0 * others * sent(&updated),
        (None, None) => {
            let wire = if pjit.reduce_dtype == StateDtype::Bfloat16 { 0.5 } else { 1.0 };
            ring(mesh.data().size) * sent(&held) * wire
        }
    }
}
