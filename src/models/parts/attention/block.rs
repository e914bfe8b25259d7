//! Attentions with their weights.

use tch::Tensor;

use super::cdq_queries::CdqQueries;
use super::spec::Attention;
use crate::models::parts::product::{Load, Product, ResidualStream, RowTensors};
use crate::nn::{Joined, Norm};

/// An attention with its weights.
#[derive(Debug)]
pub struct AttentionBlock<P> {
    norm: Norm,
    norm_comes_after: bool,
    side_norm: Option<Norm>, // of tokens beside the sequence
    inputs: P, // query, and key and value unless they are the context's: [embed, num_heads * head_dim]
    cdq: Option<CdqQueries>, // of heads whose queries depend on the row
    /// Key and value of an encoding, if the attention reads one.
    pub context: Option<P>,
    out: P, // [num_heads * head_dim, embed]
}

impl Attention {
    /// Reads the weights in the layer of that path.
    pub fn load<L: Load>(&self, layer: &str, load: &L) -> AttentionBlock<L::Product> {
        let [query, key, value, out] = self.kernels(layer, ["query", "key", "value", "out"]);
        let (inputs, context) = match self.spec.reads_encoding {
            true => (load.kernels(&[query]), Some(load.context(&[key, value]))),
            false if self.queries() == 0 => (load.kernels(&[key, value]), None),
            false => (load.kernels(&[query, key, value]), None),
        };
        let norm = &self.stream.norm;
        AttentionBlock {
            norm: load.norm(&self.spec.norm(layer), norm),
            norm_comes_after: norm.comes_after,
            side_norm: self.side_norm(layer).map(|path| load.shared_norm(&path, norm)),
            inputs,
            cdq: CdqQueries::load(self, layer, load.params()),
            context,
            out: load.kernels(&[out]),
        }
    }
}

impl<P: Product> AttentionBlock<P> {
    /// Adds to the stream. `attend` returns the averages, heads joined, from the projections of the norm, and of tokens
    /// beside the sequence for positions that attend to neighbours by `rows.blocks`.
    pub fn forward(
        &self,
        stream: &mut ResidualStream,
        rows: RowTensors<'_>,
        attend: &mut dyn FnMut(&Self, Joined) -> Tensor,
    ) {
        let side = rows.blocks.zip(self.side_norm.as_ref());
        let norm = (!self.norm_comes_after).then_some(&self.norm);
        let projected = match (&self.cdq, side) {
            (None, None) => self.inputs.of_stream(stream, norm),
            (None, Some((blocks, of_side))) => {
                let normal = self.inputs.read(stream, norm);
                let beside = of_side.of(&blocks.side_sums(&normal));
                self.inputs.of(&Tensor::cat(&[normal, beside], -2), stream.dropout)
            }
            (Some(cdq), _) => {
                let normal = self.inputs.read(stream, norm);
                let keys = rows.keys.expect("a stack with such heads has them");
                let projected = self.inputs.of(&normal, stream.dropout);
                cdq.join(projected, &normal, keys, stream.dropout)
            }
        };
        self.out.add(&attend(self, projected), stream);
        if self.norm_comes_after {
            stream.normalize(&self.norm);
        }
    }
}
