//! Feed-forward blocks with their weights.

use super::spec::{FeedForward, FeedForwardDropout};
use crate::models::parts::experts::load_experts;
use crate::models::parts::product::{Load, Product, ResidualStream};
use crate::nn::{Activation, Dropout, Experts, Norm, RoutingReport, activated};

/// A feed-forward block with its weights.
#[derive(Debug)]
pub enum FeedForwardBlock<P> {
    /// Kernels that all tokens share.
    Dense(DenseBlock<P>),
    /// Experts.
    Sparse {
        /// The norm before them.
        norm: Norm,
        /// A router and experts.
        experts: Experts,
    },
}

/// The weights of a block without experts.
#[derive(Debug)]
pub struct DenseBlock<P> {
    norm: Norm,
    norm_comes_after: bool,
    inputs: P,                    // [embed, mlp] for each activation
    activations: Vec<Activation>, // those that the product does not apply itself
    out: P,                       // [mlp, embed]
    drops: FeedForwardDropout,
}

impl FeedForward {
    /// Reads the weights in the layer of that path.
    pub fn load<L: Load>(&self, layer: &str, load: &L) -> FeedForwardBlock<L::Product> {
        let spec = &self.spec;
        let norm = load.norm(&spec.norm(layer), &self.stream.norm);
        if spec.experts.is_some() {
            return FeedForwardBlock::Sparse {
                norm,
                experts: load_experts(spec, layer, load.params()),
            };
        }
        let (inputs, activations) = load.mlp_inputs(&self.inputs(layer), &spec.activations);
        FeedForwardBlock::Dense(DenseBlock {
            norm,
            norm_comes_after: self.stream.norm.comes_after,
            inputs,
            activations,
            out: load.kernels(&[self.output(layer)]),
            drops: self.drops,
        })
    }
}

impl<P: Product> FeedForwardBlock<P> {
    /// Adds to the stream, and returns the report of a router.
    pub fn forward(&self, stream: &mut ResidualStream, dropout: Dropout) -> Option<RoutingReport> {
        match self {
            Self::Dense(block) => {
                block.forward(stream, dropout);
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

impl<P: Product> DenseBlock<P> {
    fn forward(&self, stream: &mut ResidualStream, dropout: Dropout) {
        let norm = (!self.norm_comes_after).then_some(&self.norm);
        let product = activated(&self.activations, &self.inputs.of_stream(stream, norm));
        let product = match self.drops {
            FeedForwardDropout::Nowhere => product,
            _ => dropout.apply_to_columns(product),
        };
        self.out.add(&product, stream);
        if self.drops == FeedForwardDropout::BetweenAndAfter {
            let again = |branch| dropout.apply_along_length(branch);
            stream.branch = stream.branch.take().map(again);
        }
        if self.norm_comes_after {
            stream.normalize(&self.norm);
        }
    }
}
