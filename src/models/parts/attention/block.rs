//! Attentions with their weights.

use tch::Tensor;

use super::cdq_queries::CdqQueries;
use super::spec::Attention;
use crate::models::parts::product::{Load, Product, ResidualStream, RowTensors};
use crate::nn::{Joined, RmsNorm, rms_norm};

/// An attention with its weights.
#[derive(Debug)]
pub struct AttentionBlock<P> {
    norm: RmsNorm,
    side_norm: Option<RmsNorm>, // of tokens beside the sequence
    inputs: P, // query, and key and value unless they are the context's: [embed, num_heads * head_dim]
    cdq: Option<CdqQueries>, // of heads whose queries depend on the row
    /// Key and value of an encoding, if the attention reads one.
    pub context: Option<P>,
    out: P, // [num_heads * head_dim, embed]
}

impl Attention {
    /// Reads the weights in the layer of that path.
    pub fn load<L: Load>(&self, layer: &str, load: &L) -> AttentionBlock<L::Product> {
        let epsilon = self.stream.norm_epsilon;
        let [query, key, value, out] = self.kernels(layer, ["query", "key", "value", "out"]);
        let (inputs, context) = match self.spec.reads_encoding {
            true => (load.kernels(&[query]), Some(load.context(&[key, value]))),
            false if self.queries() == 0 => (load.kernels(&[key, value]), None),
            false => (load.kernels(&[query, key, value]), None),
        };
        let side_norm = self.side_norm(layer).map(|path| load.shared_scale(&path));
        AttentionBlock {
            norm: RmsNorm { scale: load.scale(&self.spec.scale(layer)), epsilon },
            side_norm: side_norm.map(|scale| RmsNorm { scale, epsilon }),
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
        let projected = match (&self.cdq, side) {
            (None, None) => self.inputs.of_norm(stream, &self.norm),
            (None, Some((blocks, norm))) => {
                let normal = self.inputs.normed(stream, &self.norm);
                let beside = rms_norm(&blocks.side_sums(&normal), norm);
                self.inputs.of(&Tensor::cat(&[normal, beside], -2))
            }
            (Some(cdq), _) => {
                let normal = self.inputs.normed(stream, &self.norm);
                let keys = rows.keys.expect("a stack with such heads has them");
                cdq.join(self.inputs.of(&normal), &normal, keys, stream.dropout)
            }
        };
        self.out.add(&attend(self, projected), stream);
    }
}
