//! The tables of tokens in use: embedded tokens, learned rows among them, and logits.

use std::ops::Range;

use tch::{Kind, Tensor};

use super::learned_rows::{LearnedRows, RowsPlace};
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

impl LearnedRows {
    /// Puts the rows into those of each example, whose tokens are int64 `[batch, length]`: `[batch, length, embed]` to
    /// `[batch, count + length, embed]`.
    pub fn among(&self, params: &Params, tokens: &Tensor, embedded: &Tensor) -> Tensor {
        let rows = params.cast(self.kind.name(), embedded.kind());
        let rows = rows.expand([embedded.size()[0], -1, -1], false);
        match self.place {
            RowsPlace::Before => Tensor::cat(&[&rows, embedded], 1),
            RowsPlace::AfterFirst => {
                let [first, others] = [(0, 1), (1, embedded.size()[1] - 1)]
                    .map(|(start, length)| embedded.narrow(1, start, length));
                Tensor::cat(&[&first, &rows, &others], 1)
            }
            RowsPlace::BeforeLast => self.after(&(real_lengths(tokens) - 1), &rows, embedded),
            RowsPlace::AfterLast => self.after(&real_lengths(tokens), &rows, embedded),
        }
    }

    /// Puts the rows after the first tokens of each example, as many as `first` says: int64 `[batch, 1]`.
    fn after(&self, first: &Tensor, rows: &Tensor, embedded: &Tensor) -> Tensor {
        let (length, count) = (embedded.size()[1], self.count as i64);
        let first = first.clamp_min(0); // of a row of padding alone
        let place = Tensor::arange(length + count, (Kind::Int64, embedded.device())).unsqueeze(0);
        // [batch, count + length]: the number of each place's row among the tokens with the learned rows after them.
        let source = (&place + length - &first).where_self(
            &place.ge_tensor(&first).logical_and(&place.lt_tensor(&(&first + count))),
            &place.where_self(&place.lt_tensor(&first), &(&place - count)),
        );
        let source = source.unsqueeze(-1).expand([-1, -1, embedded.size()[2]], false);
        Tensor::cat(&[embedded, rows], 1).gather(1, &source, false)
    }

    /// Marks them beside the tokens that are not padding: bool `[batch, length]` to `[batch, count + length]`. Padding stays
    /// behind everything else, wherever they are.
    pub fn before_real(&self, real: &Tensor) -> Tensor {
        real.logical_not().constant_pad_nd([self.count as i64, 0]).logical_not()
    }
}

/// The numbers of tokens that are not padding: int64 `[batch, 1]`.
fn real_lengths(tokens: &Tensor) -> Tensor {
    tokens.ne(0).sum_dim_intlist([1i64].as_slice(), true, Kind::Int64)
}
