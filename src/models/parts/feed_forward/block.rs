//! Feed-forward blocks with their weights.

use super::spec::FeedForward;
use crate::models::parts::experts::load_experts;
use crate::models::parts::product::{Load, Product, ResidualStream};
use crate::nn::{Activation, Dropout, Experts, RmsNorm, RoutingReport, activated};

/// A feed-forward block with its weights.
#[derive(Debug)]
pub enum FeedForwardBlock<P> {
    /// Kernels that all tokens share.
    Dense(DenseBlock<P>),
    /// Experts.
    Sparse {
        /// The norm before them.
        norm: RmsNorm,
        /// A router and experts.
        experts: Experts,
    },
}

/// The weights of a block without experts.
#[derive(Debug)]
pub struct DenseBlock<P> {
    norm: RmsNorm,
    inputs: P,                    // [embed, mlp] for each activation
    activations: Vec<Activation>, // those that the product does not apply itself
    out: P,                       // [mlp, embed]
    drops_twice: bool,
}

impl FeedForward {
    /// Reads the weights in the layer of that path.
    pub fn load<L: Load>(&self, layer: &str, load: &L) -> FeedForwardBlock<L::Product> {
        let spec = &self.spec;
        let (scale, epsilon) = (load.scale(&spec.scale(layer)), self.stream.norm_epsilon);
        let norm = RmsNorm { scale, epsilon };
        if spec.experts.is_some() {
            return FeedForwardBlock::Sparse {
                norm,
                experts: load_experts(spec, layer, load.params()),
            };
        }
        let (inputs, activations) = load.mlp_inputs(&spec.inputs(layer), &spec.activations);
        let out = load.kernels(&[spec.output(layer)]);
        let drops_twice = self.drops_twice;
        FeedForwardBlock::Dense(DenseBlock { norm, inputs, activations, out, drops_twice })
    }
}

impl<P: Product> FeedForwardBlock<P> {
    /// Adds to the stream, and returns the report of a router.
    pub fn forward(&self, stream: &mut ResidualStream, dropout: Dropout) -> Option<RoutingReport> {
        match self {
            Self::Dense(block) => {
                let inputs = block.inputs.of_norm(stream, &block.norm);
                let product = activated(&block.activations, &inputs);
                block.out.add(&dropout.apply_to_columns(product), stream);
                if block.drops_twice {
                    let again = |branch| dropout.apply_along_length(branch);
                    stream.branch = stream.branch.take().map(again);
                }
                None
            }
            Self::Sparse { norm, experts } => {
                let normal = stream.normed(norm);
                let (result, report) = experts.forward(&normal, dropout);
                stream.sum = dropout.add_along_length(&stream.sum, &result);
                Some(report)
            }
        }
    }
}
