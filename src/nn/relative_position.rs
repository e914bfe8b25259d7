//! T5's relative position bias: one learned number per head and bucket of distance.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use tch::{Device, Kind, Tensor};

use super::autograd::custom_function;
use super::fused::kernels::{self, Kernel};
use super::profiler::{Activity, part};
use super::spec::RelativePosition;

/// Blocks that share one head's diagonals, enough to fill a device.
const PARTIAL_SUMS: i64 = 16;
/// Tables of buckets that are kept.
const MOST_KEPT: usize = 8;

/// The bucket of `key - query` position: exact up to a quarter (bidirectional) or half of the buckets,
/// then logarithmic up to `max_distance`. T5X `layers.py`, `_relative_position_bucket`.
pub fn bucket(
    relative_position: i64,
    direction: RelativePosition,
    num_buckets: i64,
    max_distance: i64,
) -> i64 {
    let distance = -relative_position;
    let (offset, num_buckets, distance) = match direction {
        RelativePosition::Bidirectional => {
            let half = num_buckets / 2;
            (if distance < 0 { half } else { 0 }, half, distance.abs())
        }
        RelativePosition::Causal => (0, num_buckets, distance.max(0)),
    };
    let max_exact = num_buckets / 2;
    if distance < max_exact {
        return offset + distance;
    }
    // numpy computes the logarithm in float32, with an epsilon so that it does not fall below an
    // integer.
    let ratio = distance as f32 / max_exact as f32 + f32::EPSILON;
    let log_ratio = f64::from(f64::from(ratio).ln() as f32);
    let log_range = (max_distance as f64 / max_exact as f64).ln();
    let steps = (log_ratio / log_range * (num_buckets - max_exact) as f64) as i64;
    offset + (max_exact + steps).min(num_buckets - 1)
}

/// Buckets of the distances `1 - q_length ..= kv_length - 1`, `[q_length + kv_length - 1]`.
pub fn buckets(
    lengths: (i64, i64),
    direction: RelativePosition,
    num_buckets: i64,
    max_distance: i64,
) -> Vec<i64> {
    let (q_length, kv_length) = lengths;
    let distances = 1 - q_length..kv_length;
    distances.map(|distance| bucket(distance, direction, num_buckets, max_distance)).collect()
}

/// The bias of every pair of positions, `[1, num_heads, q_length, kv_length]` in the embedding's dtype.
///
/// A bias depends on the distance alone, so the lookup happens once per distance, `[num_heads,
/// q_length + kv_length - 1]`, and each query reads its window of the result.
pub fn relative_position_bias(
    rel_embedding: &Tensor, // [num_heads, num_buckets]
    lengths: (i64, i64),
    direction: RelativePosition,
    max_distance: i64,
) -> Tensor {
    let kind = rel_embedding.kind();
    if kind == Kind::Half {
        // No kernel reads float16, and its sums along diagonals would overflow.
        let wide = rel_embedding.to_kind(Kind::Float);
        return relative_position_bias(&wide, lengths, direction, max_distance).to_kind(kind);
    }
    let _part = part(Activity::Embeddings);
    let num_buckets = rel_embedding.size()[1];
    let one_hot = one_hot_buckets(rel_embedding, lengths, direction, max_distance);
    let bias = || {
        let by_distance = rel_embedding.matmul(&one_hot.tr()); // [num_heads, distances]
        // Window w starts at distance 1 - q_length + w, which is that of query q_length - 1 - w.
        by_distance.unfold(1, lengths.1, 1).unsqueeze(0).flip([2])
    };
    if !kernels::suit(Kernel::RelativePosition, rel_embedding, num_buckets) {
        return bias();
    }
    let bias = tch::no_grad(bias);
    let gradients = move |of: Vec<Tensor>| vec![bucket_gradient(&of[0], &one_hot)];
    custom_function(&[rel_embedding], vec![bias], gradients).remove(0)
}

/// The bias of every distance, `1 - length` first: `[num_heads, 2 * length - 1]` in the embedding's dtype.
pub fn relative_position_distances(
    rel_embedding: &Tensor, // [num_heads, num_buckets]
    length: i64,
    direction: RelativePosition,
    max_distance: i64,
) -> Tensor {
    let lengths = (length, length);
    rel_embedding.matmul(&one_hot_buckets(rel_embedding, lengths, direction, max_distance).tr())
}

/// The question to [`one_hot_buckets`].
#[derive(Clone, Copy, PartialEq)]
struct Distances {
    lengths: (i64, i64),
    direction: RelativePosition,
    num_buckets: i64,
    max_distance: i64,
    kind: Kind,
    device: Device,
}

/// Returns `[distances, num_buckets]` in the embedding's dtype. The last answers are kept: a device would wait for each, and
/// could not record it as its own work.
fn one_hot_buckets(
    rel_embedding: &Tensor,
    lengths: (i64, i64),
    direction: RelativePosition,
    max_distance: i64,
) -> Tensor {
    static KEPT: Mutex<VecDeque<(Distances, Tensor)>> = Mutex::new(VecDeque::new());
    let asked = Distances {
        lengths,
        direction,
        num_buckets: rel_embedding.size()[1],
        max_distance,
        kind: rel_embedding.kind(),
        device: rel_embedding.device(),
    };
    let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    let found = kept.iter().position(|(answered, _)| *answered == asked);
    let (_, table) =
        found.and_then(|place| kept.remove(place)).unwrap_or_else(|| (asked, asked.answer()));
    // The ones that are used stay.
    kept.truncate(MOST_KEPT - 1);
    kept.push_front((asked, table.shallow_clone()));
    table
}

impl Distances {
    fn answer(&self) -> Tensor {
        let buckets = buckets(self.lengths, self.direction, self.num_buckets, self.max_distance);
        let index = Tensor::from_slice(&buckets).to_device(self.device);
        // A product with one-hot rows: the gradient of a gather adds one element at a time.
        index.one_hot(self.num_buckets).to_kind(self.kind)
    }
}

/// The gradient of a bias `[batch, num_heads, q_length, kv_length]`, summed over all pairs of positions of a
/// bucket: `[num_heads, num_buckets]`. `one_hot` is `[distances, num_buckets]`.
fn bucket_gradient(bias: &Tensor, one_hot: &Tensor) -> Tensor {
    let _part = part(Activity::Embeddings);
    let (num_heads, distances) = (bias.size()[1], one_hot.size()[0]);
    let size = [PARTIAL_SUMS, num_heads, distances];
    let sums = Tensor::empty(size, (Kind::Float, bias.device()));
    kernels::launch(c"diagonal_sums", &[&bias.contiguous(), &sums], &[]);
    let by_distance = sums.sum_dim_intlist(0, false, Kind::Float);
    by_distance.matmul(&one_hot.to_kind(Kind::Float)).to_kind(bias.kind())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(direction: RelativePosition, distances: &[i64], expected: &[i64]) {
        let found: Vec<i64> = distances.iter().map(|&d| bucket(d, direction, 32, 128)).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn bidirectional_buckets_are_those_of_t5x() {
        let distances = [0, -1, -7, -8, -11, -12, -16, -32, -64, -127, -128, -1000, 1, 8, 64, 500];
        let expected = [0, 1, 7, 8, 8, 9, 10, 12, 14, 15, 15, 15, 17, 24, 30, 31];
        check(RelativePosition::Bidirectional, &distances, &expected);
    }

    #[test]
    fn causal_buckets_are_those_of_t5x() {
        let distances = [3, 0, -1, -15, -16, -32, -64, -113, -128, -1000];
        check(RelativePosition::Causal, &distances, &[0, 0, 1, 15, 16, 21, 26, 31, 31, 31]);
    }
}
