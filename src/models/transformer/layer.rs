//! A layer: its parts one after the other, each of which reads the norm of the residual stream and adds to the stream.
//!
//! Training, whole sequences in prediction and single steps of decoding multiply by kernels in
//! different layouts ([`Product`]) and attend over different keys, but this is the layer of all three.

use std::sync::Arc;

use tch::Tensor;

use super::spec::StackSpec;
use crate::models::parts::{
    AttentionBlock, FeedForwardBlock, LayerRows, Load, Product, ResidualStream, RowTensors,
};
use crate::nn::{Dropout, Joined, RoutingReport};

/// A layer whose kernels are laid out for one way of computing.
#[derive(Debug)]
pub struct Layer<P> {
    /// The embedding of relative positions, if the layer has its own.
    pub rel_embedding: Option<Tensor>,
    rows: Option<(Arc<LayerRows>, Tensor)>, // learned ones
    attentions: Vec<AttentionBlock<P>>,
    feed_forwards: Vec<FeedForwardBlock<P>>,
}

/// The result of a layer or a stack.
#[derive(Debug)]
pub struct Passed {
    /// Hidden states, `[.., embed]`.
    pub hidden: Tensor,
    /// The reports of its routers, in order.
    pub routing: Vec<RoutingReport>,
}

impl<P: Product> Layer<P> {
    /// Reads the layer of a stack with that index.
    pub fn new(spec: &StackSpec, index: usize, load: &impl Load<Product = P>) -> Self {
        let path = spec.layer(index);
        let attentions = spec.attention_parts().map(|attention| attention.load(&path, load));
        let attentions = attentions.collect();
        let blocks = spec.as_parts(spec.feed_forwards(index));
        let feed_forwards = blocks.map(|block| block.load(&path, load)).collect();
        let rel_embedding = spec.own_rel_embedding(&path).map(|path| load.table(&path));
        let rows = spec.layer_rows.as_ref();
        let rows =
            rows.map(|rows| (Arc::clone(rows), load.table(&LayerRows::name(&spec.layer(index)))));
        Self { rel_embedding, rows, attentions, feed_forwards }
    }

    /// Kernels of keys and values of an encoding, of each attention that reads one.
    pub fn contexts(&self) -> impl Iterator<Item = &P> {
        self.attentions.iter().filter_map(|block| block.context.as_ref())
    }

    /// Maps hidden states `[.., embed]` to the same shape. `attend` returns the averages of an
    /// attention, heads joined, from the projections of its inputs. `real` is 1 at positions that are not padding, in
    /// stacks with experts: `[.., 1]`
    pub fn forward(
        &self,
        hidden: Tensor,
        rows: RowTensors<'_>,
        dropout: Dropout,
        attend: &mut dyn FnMut(&AttentionBlock<P>, Joined) -> Tensor,
    ) -> Passed {
        let real = rows.real.map(Tensor::shallow_clone);
        let hidden = match &self.rows {
            Some((spec, own)) => spec.meet(own, &hidden),
            None => hidden,
        };
        let mut stream = ResidualStream { sum: hidden, branch: None, dropout, real };
        for block in &self.attentions {
            block.forward(&mut stream, rows, attend);
        }
        let blocks = self.feed_forwards.iter();
        let routing = blocks.filter_map(|block| block.forward(&mut stream, dropout)).collect();
        let hidden = match stream.branch {
            Some(branch) => dropout.add_along_length(&stream.sum, &branch),
            None => stream.sum,
        };
        Passed { hidden, routing }
    }
}
