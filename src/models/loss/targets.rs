//! The loss and the scores of a decoder's targets.

use tch::{Kind, Tensor};

use super::cross_entropy::{Targets, cross_entropy, log_likelihoods};
use super::head::Head;
use super::spec::LossSpec;
use super::sums::{LossOutput, UnreadSums};
use super::weights::normalize;
use crate::metrics::sum;
use crate::models::{Batch, feature};
use crate::nn::RoutingReport;
use crate::nn::profiler::{Activity, part};

/// The training loss of a batch's targets, whose logits `head` computes, and the sums for its metrics. `reports` are those
/// of the routers on the way to them.
pub fn target_loss(
    head: &Head,
    reports: &[RoutingReport],
    batch: &Batch,
    spec: &LossSpec,
) -> LossOutput {
    let _part = part(Activity::Loss);
    let normalized = normalize(spec.loss_normalizing_factor, batch);
    let weights = normalized.weights.reshape(-1);
    let coefficients = match (spec.divisor, &normalized.factor) {
        (Some(divisor), _) => &weights / divisor,
        (None, Some(factor)) => &weights / factor,
        (None, None) => weights.shallow_clone(),
    };
    let tokens = batch.tensor(feature::DECODER_TARGET_TOKENS).reshape(-1);
    let targets = Targets { tokens, coefficients };
    let (losses, scalar) = cross_entropy(head, &targets, spec);
    let loss = losses.loss.dot(&targets.coefficients);
    // The value of the loss with the gradient of the scalar.
    let differentiable = &scalar + (&loss - scalar.detach());
    let routed = spec.routing.and_then(|losses| losses.of(reports));
    let of_routers = routed.as_ref().map(|routed| &routed.loss);
    let with_routers = |of_targets: &Tensor| match of_routers {
        Some(of_routers) => of_targets + of_routers,
        None => of_targets.shallow_clone(),
    };
    // T5X's metrics count targets with any weight, independently of its size.
    let counted = weights.ne(0).to_kind(Kind::Float);
    let sums = [
        (sum::LOSS, with_routers(&loss)),
        (sum::Z_LOSS, losses.z_loss.dot(&targets.coefficients)),
        (sum::CORRECT, losses.correct.dot(&counted)),
        (sum::NUM_WEIGHTED_TOKENS, counted.sum(Kind::Float)),
        (sum::WEIGHT_SUM, weights.sum(Kind::Float)),
    ];
    let loss = with_routers(&differentiable);
    let of_experts = routed.into_iter().flat_map(|routed| routed.sums);
    let sums = UnreadSums::new(batch, sums.into_iter().chain(of_experts));
    LossOutput { loss, sums }
}

/// Log-likelihood of each target, weighted, without smoothing or z-loss: float32 `[batch, length]`.
pub fn target_scores(head: &Head, batch: &Batch) -> Tensor {
    let tokens = batch.tensor(feature::DECODER_TARGET_TOKENS);
    let weights = batch.tensor(feature::DECODER_LOSS_WEIGHTS);
    let scores = log_likelihoods(head, &tokens.reshape(-1)).view_as(tokens);
    scores * weights
}
