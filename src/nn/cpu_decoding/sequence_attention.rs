//! Attention of whole sequences to themselves on a CPU, without gradients: the Rust side of
//! `bridge/sequence_attention.cpp`.

use std::ffi::c_char;

use tch::Tensor;

use crate::nn::autograd::{RawTensor, check, raw};

unsafe extern "C" {
    fn gimlet_sequence_attention(
        projected: RawTensor,
        lengths: *const i64,
        count: i64,
        distances: RawTensor,
        real: RawTensor,
        result: RawTensor,
    ) -> *mut c_char;
}

/// The addends for the scores of sequences that lie one after the other.
#[derive(Debug)]
pub struct SequenceBias<'a> {
    /// Rows of each sequence.
    pub lengths: &'a [i64],
    /// For the distance of a key from a query, `1 - longest` first: `[num_heads, 2 * longest - 1]`.
    pub distances: &'a Tensor,
    /// The keys that are seen; all of them in a sequence that has none: bool `[rows]`.
    pub real: &'a Tensor,
}

/// Returns averages of the values, weighted by the softmax of products with the keys plus `bias`,
/// from `projected` `[rows, 3, num_heads, head_dim]`, which are queries, keys and values:
/// `[rows, num_heads * head_dim]`.
pub fn sequence_attention(projected: &Tensor, bias: &SequenceBias) -> Tensor {
    let result = Tensor::new();
    let lengths = (bias.lengths.as_ptr(), bias.lengths.len() as i64);
    let (projected, distances, real) = (raw(projected), raw(bias.distances), raw(bias.real));
    // SAFETY: the tensors and lengths outlive the call; the bridge checks shapes and kinds.
    check(unsafe {
        gimlet_sequence_attention(projected, lengths.0, lengths.1, distances, real, raw(&result))
    });
    result.flatten(1, 2)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nn::bias_from_mask;
    use crate::nn::team::Team;
    use tch::{Device, Kind};

    /// Compares the result with libtorch's operations in float32, a sequence at a time.
    fn check_against_plain(kind: Kind, lengths: &[i64], width: i64, tolerance: f64) {
        let _held = crate::nn::GENERATOR.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        tch::manual_seed(11);
        let draw = |size: &[i64]| Tensor::randn(size, (Kind::Float, Device::Cpu));
        let (heads, rows, longest) =
            (3, lengths.iter().sum::<i64>(), *lengths.iter().max().unwrap());
        let projected = draw(&[rows, 3, heads, width]).to_kind(kind);
        let distances = draw(&[heads, 2 * longest - 1]).to_kind(kind);
        let real = Tensor::ones([rows], (Kind::Bool, Device::Cpu));
        let _ = real.get(0).fill_(0);
        let mask = bias_from_mask(&real, Kind::Float);
        let bias = SequenceBias { lengths, distances: &distances, real: &real };
        let found = sequence_attention(&projected, &bias);
        assert_eq!((found.kind(), found.size()), (kind, vec![rows, heads * width]));
        let mut first = 0;
        for &length in lengths {
            let some = projected.narrow(0, first, length).to_kind(Kind::Float);
            let [query, key, value] = [0, 1, 2].map(|part| some.select(1, part).transpose(0, 1));
            let index = Tensor::arange(length, (Kind::Int64, Device::Cpu));
            let distance = index.unsqueeze(0) - index.unsqueeze(1) + (longest - 1);
            let position =
                distances.index_select(1, &distance.view(-1)).view([heads, length, length]);
            let scores =
                query.matmul(&key.transpose(-2, -1)) + position + mask.narrow(0, first, length);
            let expected =
                scores.softmax(-1, Kind::Float).matmul(&value).transpose(0, 1).flatten(1, 2);
            let found = found.narrow(0, first, length).to_kind(Kind::Float);
            let error = (found - expected).abs().max().double_value(&[]);
            assert!(error < tolerance, "{error}, {length} of width {width} in {kind:?}");
            first += length;
        }
    }

    #[test]
    fn averages_are_those_of_plain_operations() {
        for helpers in [None, Some(2)] {
            let _team = helpers.map(Team::with_helpers);
            for (lengths, width) in [(&[1][..], 16), (&[70, 3, 32], 64), (&[5, 17], 24)] {
                check_against_plain(Kind::Float, lengths, width, 1e-5);
                check_against_plain(Kind::BFloat16, lengths, width, 2e-2);
            }
        }
    }

    #[test]
    #[should_panic(expected = "sequences of 5 rows in all, but there are 4")]
    fn lengths_have_to_add_up() {
        let zeros = |size: &[i64]| Tensor::zeros(size, (Kind::Float, Device::Cpu));
        let (distances, real) = (zeros(&[1, 5]), Tensor::ones([4], (Kind::Bool, Device::Cpu)));
        let bias = SequenceBias { lengths: &[3, 2], distances: &distances, real: &real };
        let _ = sequence_attention(&zeros(&[4, 3, 1, 16]), &bias);
    }
}
