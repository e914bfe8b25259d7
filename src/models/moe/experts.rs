//! The parts that both models with experts share.

use crate::models::loss::RoutingLosses;
use crate::models::transformer::{StackSpec, TransformerSpec};

/// The losses of routers with these weights.
pub(super) fn routing_losses(aux_loss_factor: f64, router_z_loss_factor: f64) -> RoutingLosses {
    RoutingLosses { aux_loss_factor, router_z_loss_factor, share: 1.0 }
}

/// Finds a network without experts, whose routers have no losses; `model` names the configurable.
///
/// # Errors
/// No layer has experts.
pub(super) fn check_experts(spec: &TransformerSpec, model: &str) -> Result<(), String> {
    let num_sparse = |stack: &StackSpec| {
        stack.sparse.as_ref().map_or(0, |sparse| sparse.count(stack.num_layers))
    };
    match spec.stacks().map(num_sparse).sum::<usize>() {
        0 => Err(format!(
            "no layer of {model}.module has experts, expected some: set num_sparse_layers of \
             moe_architecture.SparseEncoder or SparseDecoder, or use the model without `Moe`"
        )),
        _ => Ok(()),
    }
}
