//! Queries that depend on the row, with their weights.

use tch::{Kind, Tensor};

use super::cdq::CDQ_KERNELS;
use super::spec::Attention;
use crate::nn::{Dropout, Joined, Params, kind};

/// The weights of the queries of [`CDQ_KERNELS`].
#[derive(Debug)]
pub struct CdqQueries {
    transform: Tensor,   // [embed, embed]
    scores: Tensor,      // [embed, num_cdq_heads]
    of_average: Tensor,  // [embed, head_dim], the mix and the query as one kernel
    of_position: Tensor, // the same
}

impl CdqQueries {
    /// Reads the weights of an attention in the layer of that path, if it has such heads. They are not in fp8.
    pub fn load(attention: &Attention, layer: &str, params: &Params) -> Option<Self> {
        if attention.num_cdq_heads == 0 {
            return None;
        }
        let kind = kind(attention.stream.dtype);
        let read = attention.kernels(layer, CDQ_KERNELS).map(|spec| {
            let kernel = params.cast(&format!("{}/kernel", spec.path), kind);
            spec.divisor.into_iter().fold(kernel, |kernel, divisor| kernel / divisor)
        });
        let [transform, scores, mix, query] = read;
        let mut halves = mix.matmul(&query).chunk(2, 0);
        let of_position = halves.pop().expect("there are two halves");
        let of_average = halves.remove(0);
        Some(Self { transform, scores, of_average, of_position })
    }

    /// Returns queries, keys and values of all heads, each `[batch, length, num_heads * head_dim]`, ordinary heads first:
    /// `projected` has queries of these, unless all heads have queries of this kind, and the keys and values that both
    /// kinds share. `normal` is the norm `[batch, length, embed]`, and `keys` the addend for scores of positions,
    /// `[batch or 1, 1, length or 1]`.
    pub fn join(
        &self,
        projected: Joined,
        normal: &Tensor,
        keys: &Tensor,
        dropout: Dropout,
    ) -> Joined {
        let queries = self.queries(normal, keys, dropout);
        let parts = projected.parts();
        let wholes = match &parts[..] {
            [ordinary, key, value] => [[ordinary, &queries], [key, key], [value, value]]
                .map(|two| Tensor::cat(&two, -1))
                .into(),
            _ => [queries].into_iter().chain(projected.into_wholes()).collect(),
        };
        Joined::new(wholes, 3)
    }

    /// `[batch, length, num_cdq_heads * head_dim]`
    fn queries(&self, normal: &Tensor, keys: &Tensor, dropout: Dropout) -> Tensor {
        // [batch, num_cdq_heads, length]
        let scores = normal.matmul(&self.transform).relu().matmul(&self.scores).transpose(1, 2);
        // Softmax in f32: bf16 scores are too coarse to normalize.
        let weights = (scores + keys).softmax(-1, Kind::Float).to_kind(normal.kind());
        let averages = dropout.apply(weights).matmul(normal); // [batch, num_cdq_heads, embed]
        let of_averages = averages.matmul(&self.of_average).unsqueeze(1);
        let of_positions = normal.matmul(&self.of_position).unsqueeze(2);
        (of_averages + of_positions).flatten(2, 3)
    }
}
