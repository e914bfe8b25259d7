//! Embeddings before the stacks, and logits after them.

use tch::{Kind, Tensor};

use super::spec::TransformerSpec;
use crate::models::loss::Head;
use crate::nn::{Params, embed, kind};

impl TransformerSpec {
    /// Embedding rows of `tokens` of any shape in the compute dtype: `[.., embed]`.
    pub fn embed(&self, params: &Params, tokens: &Tensor) -> Tensor {
        embed(self.table(params), tokens, kind(self.decoder.dims.dtype))
    }

    /// The logits of `hidden` `[batch, length, embed]`, to be computed.
    pub fn head(&self, params: &Params, hidden: &Tensor) -> Head {
        let hidden = self.head_inputs(hidden).view([-1, self.decoder.dims.emb_dim as i64]);
        Head { hidden, kernel: self.head_kernel(params) }
    }

    /// The head's inputs in float32: logits are float32 for any format of activations.
    pub fn head_inputs(&self, hidden: &Tensor) -> Tensor {
        let hidden = hidden.to_kind(Kind::Float);
        if !self.logits_via_embedding {
            return hidden;
        }
        // T5 1.0 divides the logits of a shared embedding by sqrt(emb_dim); so does this.
        hidden / (self.decoder.dims.emb_dim as f64).sqrt()
    }

    /// The head's kernel: float32 `[embed, vocab]`.
    pub fn head_kernel(&self, params: &Params) -> Tensor {
        if self.logits_via_embedding {
            self.table(params).tr()
        } else {
            params.get(&format!("{}/kernel", self.logits_dense())).shallow_clone()
        }
    }

    /// Begins a forward pass: sets the format in which projections compute.
    pub fn begin(&self, params: &Params) {
        params.begin_fp8(self.fp8.as_ref());
    }

    fn table<'a>(&self, params: &'a Params) -> &'a Tensor {
        params.get(&format!("{}/embedding", self.embedding))
    }
}
