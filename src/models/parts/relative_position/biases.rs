//! The biases that embeddings of relative positions give.

use tch::Tensor;

use super::spec::RelativeBias;
use crate::nn::{relative_position_bias, relative_position_distances};

impl RelativeBias {
    /// The bias of all pairs of positions: `[heads / heads_of_bias, buckets]` to `[1, heads, length, length]`.
    pub fn of_pairs(&self, embedding: &Tensor, length: i64) -> Tensor {
        let of_heads = match self.heads_of_bias {
            1 => embedding.shallow_clone(),
            count => embedding.repeat([count as i64, 1]),
        };
        relative_position_bias(
            &of_heads,
            (length, length),
            self.direction,
            self.max_distance as i64,
        )
    }

    /// The bias of all distances, `1 - length` first: `[heads, buckets]` to `[heads, 2 * length - 1]`.
    pub fn of_distances(&self, embedding: &Tensor, length: i64) -> Tensor {
        relative_position_distances(embedding, length, self.direction, self.max_distance as i64)
    }

    /// The bias of neighbours by blocks of that length: `[heads, buckets]` to `[heads, block, 3 * block]`.
    pub fn of_neighbours(&self, embedding: &Tensor, block: i64) -> Tensor {
        // Window w starts at distance 1 - 2 * block + w, which is that of the first key around query block - 1 - w.
        self.of_distances(embedding, 2 * block).unfold(1, 3 * block, 1).flip([1])
    }
}
