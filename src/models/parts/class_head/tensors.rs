//! A head of classes in use.

use tch::{Kind, Tensor};

use super::spec::{ClassHead, POOLER, ReadPosition};
use crate::models::heads::{Head, Vocabulary};
use crate::models::parts::biased_product;
use crate::nn::{Dropout, Params, kind};

impl ClassHead {
    /// The logits of classes, to be computed: of each row of `hidden` `[batch, length, embed]`, at whose end are the
    /// positions of `tokens`, int64 `[batch, tokens_length]`.
    pub fn head(
        &self,
        params: &Params,
        hidden: &Tensor,
        tokens: &Tensor,
        dropout: Dropout,
    ) -> Head {
        let dropout = dropout.with_rate(self.dropout_rate);
        let read = match self.reads {
            ReadPosition::First => hidden.select(1, 0),
            ReadPosition::LastToken => dropout.apply(last(hidden, tokens)),
        };
        let pooled = biased_product(params, POOLER, &read, kind(self.stream.dtype));
        Head {
            hidden: dropout.apply(pooled.tanh()),
            kernel: params.read(&format!("{}/kernel", self.path)),
            bias: Some(params.read(&format!("{}/bias", self.path))),
            scale: 1.0,
            vocabulary: Vocabulary::whole(self.num_classes as i64),
        }
    }
}

/// The hidden states of the last tokens: `[batch, embed]`.
fn last(hidden: &Tensor, tokens: &Tensor) -> Tensor {
    let (rows, length, embed) = hidden.size3().expect("hidden states have three axes");
    let places = Tensor::arange(length, (Kind::Int64, hidden.device()));
    let own = tokens.size()[1];
    let last = tokens.ne(0) * places.narrow(0, length - own, own);
    let last = last.amax([1], true).unsqueeze(-1);
    hidden.gather(1, &last.expand([rows, 1, embed], false), false).squeeze_dim(1)
}
