//! The description of a stack's biases of relative position, and what follows from it.

use crate::models::parts::{LearnedBias, param};
use crate::nn::{Distribution, FanMode, Initializer, ParamSpec, RelativePosition};

/// Buckets of relative position; fixed in T5X's `network.py`.
const NUM_BUCKETS: usize = 32;
/// Distance from which all positions share a bucket; fixed in T5X's `network.py`.
const MAX_DISTANCE: usize = 128;
/// Operations of a layer's own bias: product with buckets, window, and sum with the mask.
const OPERATIONS_OF_LAYER: usize = 3;

/// The biases of the attentions of a stack to its own positions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RelativeBias {
    /// Whether keys after a query have buckets of their own.
    pub direction: RelativePosition,
    /// Whether each layer has a bias of its own, instead of one that all share.
    pub per_layer: bool,
    /// The initial values of their embeddings.
    pub initializer: Initializer,
    /// Number of heads that share each bias.
    pub heads_of_bias: usize,
    /// Buckets of distance.
    pub num_buckets: usize,
    /// Distance from which all positions share a bucket.
    pub max_distance: usize,
}

impl RelativeBias {
    /// T5's: one that all layers share. Source: T5X `examples/t5/network.py`.
    pub fn t5(direction: RelativePosition) -> Self {
        let initializer = Initializer::VarianceScaling {
            scale: 1.0,
            mode: FanMode::FanAvg,
            distribution: Distribution::Uniform,
        };
        Self {
            direction,
            per_layer: false,
            initializer,
            heads_of_bias: 1,
            num_buckets: NUM_BUCKETS,
            max_distance: MAX_DISTANCE,
        }
    }

    /// Path of the embedding of a stack or a layer.
    pub fn path(owner: &str) -> String {
        format!("{owner}/relpos_bias/rel_embedding")
    }

    /// An embedding: `[heads / heads_of_bias, buckets]`.
    pub fn param(&self, path: String, num_heads: usize) -> ParamSpec {
        let num_biases = num_heads / self.heads_of_bias;
        let (shape, axes) = (vec![num_biases, self.num_buckets], vec!["heads", "relpos_buckets"]);
        param(path, shape, axes, self.initializer)
    }

    /// The biases in memory at once, in a stack of so many layers that are kept or made again.
    pub fn learned(&self, num_layers: usize, is_recomputed: bool) -> LearnedBias {
        let is_shared = !self.per_layer;
        LearnedBias {
            kept: if is_shared || is_recomputed { 1.0 } else { num_layers as f64 },
            gradients: if is_shared && num_layers > 1 { 2.0 } else { 1.0 },
        }
    }

    /// Masks that are made for an attention to the stack's own positions: if it is causal, of positions before, of a prefix, of
    /// what is no padding, and what they have in common.
    pub fn num_masks(&self) -> f64 {
        if self.direction == RelativePosition::Causal { 6.0 } else { 1.0 }
    }

    /// Operations that a device is told to do for the biases that layers do not share.
    pub fn num_operations(&self, num_layers: usize) -> f64 {
        if self.per_layer { (OPERATIONS_OF_LAYER * num_layers) as f64 } else { 0.0 }
    }
}
