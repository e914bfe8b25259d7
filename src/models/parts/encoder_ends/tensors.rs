//! An encoder's ends in use.

use tch::Tensor;

use super::spec::{EncoderEnds, path};
use crate::models::heads::Head;
use crate::models::parts::{TokenEmbedding, biased_product, norm};
use crate::nn::{Joined, Norm, Params, activated, embed, kind};

impl EncoderEnds {
    /// Adds positions and types to embedded tokens `[batch, length, embed]`, and normalizes the sum. `types` is int64
    /// `[batch, length]`, or all are 0; `positions` too, or they count from 0.
    pub fn begin(
        &self,
        params: &Params,
        embedded: Tensor,
        [types, positions]: [Option<&Tensor>; 2],
    ) -> Tensor {
        let kind = embedded.kind();
        let length = embedded.size()[1];
        let table = params.read(path::TYPES);
        let of_types = match types {
            Some(types) => embed(&table, types, kind, true),
            None => table.narrow(0, 0, 1).to_kind(kind),
        };
        let mut sum = embedded + of_types;
        if self.num_positions.is_some() {
            let table = params.read(path::POSITIONS);
            sum += match positions {
                Some(positions) => embed(&table, positions, kind, true),
                None => table.narrow(0, 0, length).to_kind(kind),
            };
        }
        self.norm(params, path::NORM).of(&sum)
    }

    /// The logits of tokens at some positions, to be computed from `hidden` `[positions, embed]`, with the embedding of
    /// tokens. Processes along the model axis divide the tokens, and nothing before.
    pub fn masked_tokens(&self, params: &Params, hidden: &Tensor, tokens: &TokenEmbedding) -> Head {
        let kind = kind(self.stream.dtype);
        let dense = biased_product(params, path::TRANSFORM, hidden, kind);
        let active = activated(&[self.activation], &Joined::new(vec![dense], 1));
        let normal = self.norm(params, path::TRANSFORM_NORM).of(&active);
        Head {
            hidden: params.division().axes.model.shared(&normal),
            kernel: tokens.rows(params).tr(),
            bias: Some(params.read(path::TOKEN_BIAS)),
            scale: 1.0,
            vocabulary: tokens.vocabulary(params),
        }
    }

    fn norm(&self, params: &Params, path: &str) -> Norm {
        let kind = kind(self.stream.dtype);
        norm(path, &self.stream.norm, &|name| params.cast(name, kind))
    }
}
