//! Attention of a few queries to many keys, as in a step of decoding: the Rust side of
//! `bridge/step_attention.cpp`.

use std::ffi::c_char;

use tch::Tensor;

use super::autograd::{RawTensor, check, raw};

/// Heads are computed in pieces of this many numbers, as in `bridge/vectors.h`, up to the widest.
const LANES: i64 = 16;
const WIDEST_HEAD: i64 = 256;

/// Keys and values of one attention, each `[batch, num_heads, length, head_dim]`.
#[derive(Debug)]
pub struct KeyValue {
    /// The keys, which are multiplied with queries.
    pub key: Tensor,
    /// The values, which are averaged by the resulting weights.
    pub value: Tensor,
}

unsafe extern "C" {
    fn gimlet_step_attention(
        query: RawTensor,
        key: RawTensor,
        value: RawTensor,
        bias: RawTensor,
        result: RawTensor,
    ) -> *mut c_char;
}

/// Returns averages of the values, weighted by the softmax of products with the keys plus `bias`,
/// which broadcasts to `[batch, num_heads, q_length, kv_length]`, for every query `[batch,
/// num_heads, q_length, head_dim]`, with their heads joined: `[batch, q_length, num_heads *
/// head_dim]`. All tensors are of one kind. There is no gradient.
pub fn step_attention(query: &Tensor, key_value: &KeyValue, bias: &Tensor) -> Tensor {
    let (batch, heads, length, width) = query.size4().expect("queries have four axes");
    let KeyValue { key, value } = key_value;
    let by_position = if query.device().is_cuda() || width % LANES != 0 || width > WIDEST_HEAD {
        // T5 does not divide by sqrt(head_dim): the query's initializer absorbs it.
        let scale = 1.0;
        Tensor::scaled_dot_product_attention(
            query,
            key,
            value,
            Some(bias),
            0.0,
            false,
            scale,
            false,
        )
        .transpose(1, 2)
    } else {
        let result = Tensor::new();
        let operands = [raw(query), raw(key), raw(value), raw(bias)];
        let [query, key, value, bias] = operands;
        // SAFETY: the tensors outlive the call; the bridge checks their shapes and kinds.
        check(unsafe { gimlet_step_attention(query, key, value, bias, raw(&result)) });
        result
    };
    by_position.reshape([batch, length, heads * width])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nn::team::Team;
    use tch::{Device, Kind};

    /// Compares the result with libtorch's operations in float32, with heads at strides as products
    /// return them.
    fn check_against_plain(kind: Kind, [queries, keys, width]: [i64; 3], tolerance: f64) {
        let _held = crate::nn::GENERATOR.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        tch::manual_seed(7);
        let draw = |size: &[i64]| Tensor::randn(size, (Kind::Float, Device::Cpu)).to_kind(kind);
        let (batch, heads) = (3, 2);
        let query = draw(&[batch, queries, heads, width]).transpose(1, 2);
        let both = draw(&[batch, keys, 2, heads, width]);
        let part = |index| both.select(2, index).transpose(1, 2);
        let key_value = KeyValue { key: part(0), value: part(1) };
        let forbidden = Tensor::from(-1e10).to_kind(kind);
        for size in
            [[batch, heads, 1, keys], [1, heads, 1, keys], [batch, 1, 1, keys], [1, 1, 1, 1]]
        {
            // The last row of the batch may attend to its first key only, and one head's scores are
            // far below zero.
            let bias = draw(&size);
            if size[3] > 1 {
                bias.get(-1).narrow(-1, 1, keys - 1).copy_(&forbidden);
            }
            let _ = bias.get(0).get(-1).g_sub_scalar_(200.0);
            check_one(&query, &key_value, &bias, tolerance);
        }
    }

    fn check_one(query: &Tensor, key_value: &KeyValue, bias: &Tensor, tolerance: f64) {
        let kind = query.kind();
        let wide = |tensor: &Tensor| tensor.to_kind(Kind::Float);
        let scores = wide(query).matmul(&wide(&key_value.key).transpose(-2, -1)) + wide(bias);
        let expected = scores.softmax(-1, Kind::Float).matmul(&wide(&key_value.value));
        let found = step_attention(query, key_value, bias);
        let expected = expected.transpose(1, 2).reshape(found.size());
        assert_eq!(found.kind(), kind);
        let error = (wide(&found) - &expected).abs().max().double_value(&[]);
        assert!(
            error < tolerance,
            "{error}, {:?} with {:?} in {kind:?}",
            query.size(),
            bias.size()
        );
    }

    #[test]
    fn averages_are_those_of_plain_operations() {
        for helpers in [None, Some(2)] {
            let _team = helpers.map(Team::with_helpers);
            for size in [[1, 1, 16], [1, 512, 64], [4, 37, 64], [2, 5, 128], [1, 9, 24]] {
                check_against_plain(Kind::Float, size, 3e-5); // scores of -200 have that rounding
                check_against_plain(Kind::BFloat16, size, 3e-2);
            }
        }
    }

    #[test]
    #[should_panic(expected = "not of the type of the queries")]
    fn mixed_kinds_are_refused() {
        let ones = |kind| Tensor::ones([1, 1, 1, 16], (kind, Device::Cpu));
        let key_value = KeyValue { key: ones(Kind::BFloat16), value: ones(Kind::BFloat16) };
        let _ = step_attention(&ones(Kind::Float), &key_value, &ones(Kind::Float));
    }
}
