//! Attention of a step of decoding: the Rust side of `bridge/cached_attention.cpp`.

use std::ffi::c_char;

use tch::{Device, Tensor};

use super::attention::KeyValue;
use super::autograd::{RawTensor, check, raw};

unsafe extern "C" {
    fn gimlet_cached_attention(
        query: RawTensor,
        key: RawTensor,
        value: RawTensor,
        bias: RawTensor,
        result: RawTensor,
    ) -> *mut c_char;
}

/// Averages of the values, weighted by the softmax of products with the keys plus `bias`, for every query of
/// `query` `[batch, num_heads, q_length, head_dim]`: `[batch, q_length, num_heads, head_dim]`. `bias` broadcasts to
/// `[batch, num_heads, q_length, kv_length]`. For a few queries a step; no gradient goes through it.
///
/// T5 does not divide by `sqrt(head_dim)`: the query's initializer absorbs it.
pub fn cached_attention(query: &Tensor, key_value: &KeyValue, bias: &Tensor) -> Tensor {
    let KeyValue { key, value } = key_value;
    if query.device() != Device::Cpu {
        let heads = Tensor::scaled_dot_product_attention(
            query,
            key,
            value,
            Some(bias),
            0.0,
            false,
            1.0,
            false,
        );
        return heads.transpose(1, 2);
    }
    let result = Tensor::new();
    let [query, key, value, bias] = [query, key, value, bias].map(raw);
    // SAFETY: the tensors outlive the call; the bridge checks their shapes.
    check(unsafe { gimlet_cached_attention(query, key, value, bias, raw(&result)) });
    result
}

#[cfg(test)]
mod tests {
    use super::*;
    use tch::Kind;

    /// Against plain operations in float32, within `tolerance` of the largest value.
    fn check_against_plain(kind: Kind, [queries, length, width]: [i64; 3], tolerance: f64) {
        let _held = crate::nn::GENERATOR.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        tch::manual_seed(5);
        let draw = |size: &[i64]| Tensor::randn(size, (Kind::Float, Device::Cpu)).to_kind(kind);
        let query = draw(&[2, queries, 3, width]).transpose(1, 2);
        // As they lie in a cache: keys and values of a position together.
        let cache = draw(&[2, length, 2, 3, width]);
        let part = |index| cache.select(2, index).transpose(1, 2);
        let key_value = KeyValue { key: part(0), value: part(1) };
        let wide = |tensor: &Tensor| tensor.to_kind(Kind::Float);
        for bias in
            [draw(&[1, 3, 1, length]), draw(&[2, 1, 1, length]), draw(&[2, 3, queries, length])]
        {
            let scores = wide(&query).matmul(&wide(&key_value.key).transpose(2, 3)) + wide(&bias);
            let heads = scores.softmax(-1, None::<Kind>).matmul(&wide(&key_value.value));
            let expected = heads.transpose(1, 2);
            let found = cached_attention(&query, &key_value, &bias);
            assert_eq!((found.kind(), found.size()), (kind, expected.size()));
            let error = (wide(&found) - &expected).abs().max().double_value(&[]);
            let largest = expected.abs().max().double_value(&[]);
            assert!(
                error < tolerance * largest,
                "{error} of {largest}, {queries} {length} {width}"
            );
        }
    }

    #[test]
    fn cached_attention_is_plain_attention() {
        for sizes in [[1, 1, 64], [1, 40, 128], [4, 700, 64], [2, 9, 8], [1, 5, 83]] {
            check_against_plain(Kind::Float, sizes, 1e-5);
            check_against_plain(Kind::BFloat16, sizes, 1e-2);
        }
    }

    #[test]
    fn a_query_without_keys_averages_all() {
        let ones = |size: [i64; 4]| Tensor::ones(size, (Kind::Float, Device::Cpu));
        let value = Tensor::arange(4, (Kind::Float, Device::Cpu)).view([1, 1, 4, 1]);
        let key_value = KeyValue { key: ones([1, 1, 4, 1]), value };
        let bias = ones([1, 1, 1, 4]) * -1e10;
        let found = cached_attention(&ones([1, 1, 1, 1]), &key_value, &bias);
        assert_eq!(f64::try_from(found.view(-1).get(0)).expect("one number"), 1.5);
    }

    #[test]
    #[should_panic(expected = "are not of queries [1, 2, 1, 8]")]
    fn keys_of_another_width_are_refused() {
        let ones = |size: [i64; 4]| Tensor::ones(size, (Kind::Float, Device::Cpu));
        let key_value = KeyValue { key: ones([1, 2, 3, 7]), value: ones([1, 2, 3, 7]) };
        let _ = cached_attention(&ones([1, 2, 1, 8]), &key_value, &ones([1, 1, 1, 3]));
    }
}
