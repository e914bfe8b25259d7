//! Embeddings before the stacks, and logits after them.

use std::ops::Range;

use tch::{Kind, Tensor};

use super::layer_arrays::LayerArrays;
use super::spec::TransformerSpec;
use crate::models::heads::{Head, Vocabulary};
use crate::nn::{Params, embed, kind};

impl TransformerSpec {
    /// Embedding rows of `tokens` of any shape in the compute dtype: `[.., embed]`.
    pub fn embed(&self, params: &Params, tokens: &Tensor) -> Tensor {
        let kind = kind(self.last.dims.dtype);
        let (table, rows) = (params.read(&self.table()), self.vocabulary(params));
        let model = &params.division().axes.model;
        if model.is_alone() {
            return embed(&table, tokens, kind);
        }
        // Each process looks its own rows up, and the others' are zero.
        let places = tokens - rows.start as i64;
        let own = places.ge(0).logical_and(&places.lt(rows.len() as i64));
        let found = embed(&table, &(places * &own), kind) * own.unsqueeze(-1);
        model.summed(found)
    }

    /// The logits of `hidden` `[batch, length, embed]`, to be computed.
    pub fn head(&self, params: &Params, hidden: &Tensor) -> Head {
        Head {
            hidden: hidden.reshape([-1, self.last.dims.emb_dim as i64]),
            kernel: self.head_kernel(params),
            scale: self.logits_scale(),
            vocabulary: Vocabulary {
                axis: params.division().axes.model.clone(),
                first: self.vocabulary(params).start as i64,
                size: self.vocab_size as i64,
            },
        }
    }

    /// The head's inputs in float32: logits are float32 for any format of activations.
    pub fn head_inputs(&self, hidden: &Tensor) -> Tensor {
        let hidden = hidden.to_kind(Kind::Float);
        if self.logits_via_embedding { hidden * self.logits_scale() } else { hidden }
    }

    /// T5 1.0 divides the logits of a shared embedding by sqrt(emb_dim).
    fn logits_scale(&self) -> f64 {
        match self.logits_via_embedding {
            true => (self.last.dims.emb_dim as f64).sqrt().recip(),
            false => 1.0,
        }
    }

    /// The head's kernel, or the columns of it that are here: float32 `[embed, vocab]`.
    pub fn head_kernel(&self, params: &Params) -> Tensor {
        if self.logits_via_embedding {
            params.read(&self.table()).tr()
        } else {
            params.read(&format!("{}/kernel", self.logits_dense()))
        }
    }

    /// The rows of the embedding that are here.
    fn vocabulary(&self, params: &Params) -> Range<usize> {
        let shard = params.division().shards.get(&self.table());
        shard.map_or(0..self.vocab_size, |shard| shard.ranges[0].clone())
    }

    /// Begins a forward pass: sets the format in which projections compute, and returns the parameters of separate
    /// layers.
    pub fn begin(&self, params: &Params) -> Params {
        let params = self.of_layers(params);
        params.begin_fp8(self.fp8.as_ref());
        params
    }

    /// Returns the parameters of separate layers, as parts of the graph, wherever they lie.
    pub fn of_layers(&self, params: &Params) -> Params {
        match self.layer_arrays {
            LayerArrays::Joined => params.clone(),
            LayerArrays::ByHead | LayerArrays::Stacked | LayerArrays::Fused => {
                params.of_layers(&self.param_tree())
            }
        }
    }

    fn table(&self) -> String {
        format!("{}/embedding", self.embedding)
    }
}
