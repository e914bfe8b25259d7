//! The tables of tokens in use: embedded tokens, and logits.

use std::ops::Range;

use tch::{Kind, Tensor};

use super::spec::TokenEmbedding;
use crate::models::heads::{Head, Vocabulary};
use crate::nn::{Params, embed, kind};

impl TokenEmbedding {
    /// Embedding rows of `tokens` of any shape in the compute dtype: `[.., embed]`.
    pub fn embed(&self, params: &Params, tokens: &Tensor) -> Tensor {
        let kind = kind(self.stream.dtype);
        let (table, rows) = (params.read(&self.table()), self.own_rows(params));
        let model = &params.division().axes.model;
        if model.is_alone() {
            return embed(&table, tokens, kind, self.learns_padding);
        }
        // Each process looks its own rows up, and the others' are zero.
        let places = tokens - rows.start as i64;
        let own = places.ge(0).logical_and(&places.lt(rows.len() as i64));
        let learns_first = self.learns_padding || rows.start > 0;
        let found = embed(&table, &(places * &own), kind, learns_first) * own.unsqueeze(-1);
        model.summed(found)
    }

    /// The logits of `hidden` `[batch, length, embed]`, to be computed.
    pub fn head(&self, params: &Params, hidden: &Tensor) -> Head {
        Head {
            hidden: hidden.reshape([-1, self.stream.emb_dim as i64]),
            kernel: self.head_kernel(params),
            bias: None,
            scale: self.logits_scale(),
            vocabulary: self.vocabulary(params),
        }
    }

    /// The tokens whose rows, and whose logits, are here.
    pub fn vocabulary(&self, params: &Params) -> Vocabulary {
        Vocabulary {
            axis: params.division().axes.model.clone(),
            first: self.own_rows(params).start as i64,
            size: self.vocab_size as i64,
        }
    }

    /// The head's inputs in float32: logits are float32 for any format of activations.
    pub fn head_inputs(&self, hidden: &Tensor) -> Tensor {
        let hidden = hidden.to_kind(Kind::Float);
        if self.logits.is_none() { hidden * self.logits_scale() } else { hidden }
    }

    /// T5 1.0 divides the logits of a shared embedding by sqrt(emb_dim).
    fn logits_scale(&self) -> f64 {
        match self.logits {
            None => (self.stream.emb_dim as f64).sqrt().recip(),
            Some(_) => 1.0,
        }
    }

    /// The head's kernel, or the columns of it that are here: float32 `[embed, vocab]`.
    pub fn head_kernel(&self, params: &Params) -> Tensor {
        match self.logits {
            None => params.read(&self.table()).tr(),
            Some(logits) => params.read(&format!("{}/kernel", logits.path)),
        }
    }

    /// The embedding: float32 `[vocab, embed]`.
    pub fn rows(&self, params: &Params) -> Tensor {
        params.read(&self.table())
    }

    /// The rows of the embedding that are here.
    fn own_rows(&self, params: &Params) -> Range<usize> {
        let shard = params.division().shards.get(&self.table());
        shard.map_or(0..self.vocab_size, |shard| shard.ranges[0].clone())
    }
}
