//! Attention of a few queries to many keys, as in a step of decoding: the Rust side of
//! `bridge/step_attention.cpp`.

use std::ffi::c_char;
use std::ptr::null_mut;

use tch::{Device, Tensor};

use crate::nn::autograd::{RawTensor, check, raw};

/// The widest head of the kernels in `bridge/step_attention.cpp`.
const WIDEST_HEAD: i64 = 256;

/// Keys and values of one attention, each `[batch, num_heads, length, head_dim]`.
#[derive(Debug)]
pub struct KeyValue {
    /// The keys, which are multiplied with queries.
    pub key: Tensor,
    /// The values, which are averaged by the resulting weights.
    pub value: Tensor,
}

/// The past of hypotheses, in which a step stores its own keys and values.
#[derive(Debug)]
pub struct Past<'a> {
    /// Keys and values `[hypotheses, max_length, 2, num_heads, head_dim]`, written in place.
    pub cache: &'a Tensor,
    /// Biases of scores `[1, 1 or num_heads, max_length, max_length]`, a row for each position.
    pub bias: &'a Tensor,
    /// The position of the step.
    pub position: i64,
    /// How many positions of each hypothesis stay as they are: int64 `[hypotheses]`.
    pub filled: Option<&'a Tensor>,
}

unsafe extern "C" {
    fn gimlet_step_attention(
        query: RawTensor,
        key: RawTensor,
        value: RawTensor,
        bias: RawTensor,
        result: RawTensor,
    ) -> *mut c_char;
    fn gimlet_past_attention(
        projected: RawTensor,
        cache: RawTensor,
        bias: RawTensor,
        filled: RawTensor,
        position: i64,
        result: RawTensor,
    ) -> *mut c_char;
}

/// Whether heads of that width have kernels of their own on that device, as `past_attention` needs.
pub fn has_step_kernels(device: Device, head_dim: i64) -> bool {
    !device.is_cuda() && head_dim <= WIDEST_HEAD
}

/// Returns averages of the values, weighted by the softmax of products with the keys plus `bias` `[batch or 1, num_heads or
/// 1, q_length or 1, kv_length]`, whose rows lie in one piece, for every query `[batch * q_length,
/// num_heads * head_dim]`, in the same shape. All tensors are of one kind. There is no gradient.
pub fn step_attention(query: &Tensor, key_value: &KeyValue, bias: &Tensor) -> Tensor {
    let KeyValue { key, value } = key_value;
    let (batch, heads, _, width) = key.size4().expect("keys have four axes");
    if !has_step_kernels(query.device(), width) {
        let by_head = query.view([batch, -1, heads, width]).transpose(1, 2);
        // T5 does not divide by sqrt(head_dim): the query's initializer absorbs it.
        let scale = 1.0;
        let averages = Tensor::scaled_dot_product_attention(
            &by_head,
            key,
            value,
            Some(bias),
            0.0,
            false,
            scale,
            false,
        );
        return averages.transpose(1, 2).reshape(query.size());
    }
    let result = Tensor::new();
    let operands = [raw(query), raw(key), raw(value), raw(bias)];
    let [query, key, value, bias] = operands;
    // SAFETY: the tensors outlive the call; the bridge checks their shapes and kinds.
    check(unsafe { gimlet_step_attention(query, key, value, bias, raw(&result)) });
    result
}

/// Stores the position's keys and values in the past, and returns the averages of all values up to there, weighted as
/// by `step_attention`: queries, keys and values `[hypotheses, 3 * num_heads * head_dim]`, in that order, to
/// `[hypotheses, num_heads * head_dim]`. Only where `has_step_kernels`.
pub fn past_attention(projected: &Tensor, past: &Past<'_>) -> Tensor {
    let Past { cache, bias, position, filled } = past;
    let (result, filled) = (Tensor::new(), filled.map_or(null_mut(), raw));
    let [projected, cache, bias] = [raw(projected), raw(cache), raw(bias)];
    // SAFETY: the tensors outlive the call; the bridge checks their shapes and kinds, and null means no tensor.
    check(unsafe {
        gimlet_past_attention(projected, cache, bias, filled, *position, raw(&result))
    });
    result
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nn::team::Team;
    use tch::Kind;

    /// Compares the result with libtorch's operations in float32, with heads at strides as products
    /// return them.
    fn check_against_plain(kind: Kind, [queries, keys, width]: [i64; 3], tolerance: f64) {
        let _held = crate::nn::GENERATOR.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        tch::manual_seed(7);
        let draw = |size: &[i64]| Tensor::randn(size, (Kind::Float, Device::Cpu)).to_kind(kind);
        let (batch, heads) = (3, 2);
        let query = draw(&[batch * queries, 2, heads * width]).select(1, 1);
        let both = draw(&[batch, keys, 2, heads, width]);
        let part = |index| both.select(2, index).transpose(1, 2);
        let key_value = KeyValue { key: part(0), value: part(1) };
        let forbidden = Tensor::from(-1e10).to_kind(kind);
        for size in [
            [batch, heads, 1, keys],
            [1, heads, queries, keys],
            [batch, 1, 1, keys],
            [1, 1, 1, keys],
        ] {
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
        let (batch, heads, _, width) = key_value.key.size4().expect("four axes");
        let by_head = wide(query).reshape([batch, -1, heads, width]).transpose(1, 2);
        let scores = by_head.matmul(&wide(&key_value.key).transpose(-2, -1)) + wide(bias);
        let expected = scores.softmax(-1, Kind::Float).matmul(&wide(&key_value.value));
        let found = step_attention(query, key_value, bias);
        let expected = expected.transpose(1, 2).reshape(query.size());
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
            for size in [[1, 1, 16], [1, 512, 64], [6, 37, 64], [2, 5, 128], [5, 9, 24], [1, 3, 8]]
            {
                check_against_plain(Kind::Float, size, 3e-5); // scores of -200 have that rounding
                check_against_plain(Kind::BFloat16, size, 3e-2);
            }
        }
    }

    /// Compares attention to the past with attention to the same keys and values outside of a cache.
    fn check_past(kind: Kind, [position, heads, width]: [i64; 3], filled: Option<&Tensor>) {
        let _held = crate::nn::GENERATOR.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        tch::manual_seed(9);
        let draw = |size: &[i64]| Tensor::randn(size, (Kind::Float, Device::Cpu)).to_kind(kind);
        let (rows, length, joined) = (3, 50, heads * width);
        let projected = draw(&[rows, 3 * joined]);
        let (cache, bias) =
            (draw(&[rows, length, 2, heads, width]), draw(&[1, heads, length, length]));

        let stored = cache.copy();
        let new = projected.narrow(1, joined, 2 * joined).view([rows, 2, heads, width]);
        let is_kept = |row| filled.is_some_and(|filled| position < filled.int64_value(&[row]));
        (0..rows)
            .filter(|row| !is_kept(*row))
            .for_each(|row| stored.get(row).get(position).copy_(&new.get(row)));
        let read = stored.narrow(1, 0, position + 1);
        let part = |index| read.select(2, index).transpose(1, 2);
        let key_value = KeyValue { key: part(0), value: part(1) };
        let step_bias = bias.narrow(2, position, 1).narrow(3, 0, position + 1);
        let expected = step_attention(&projected.narrow(1, 0, joined), &key_value, &step_bias);

        let past = Past { cache: &cache, bias: &bias, position, filled };
        assert_eq!(past_attention(&projected, &past), expected, "{kind:?}, {position}, {width}");
        assert_eq!(cache, stored, "{kind:?}, {position}, {width}");
    }

    #[test]
    fn the_past_is_stored_and_read_in_one_call() {
        let filled = Tensor::from_slice(&[0i64, 17, 16]);
        for helpers in [None, Some(2)] {
            let _team = helpers.map(Team::with_helpers);
            for position in [0, 15, 16, 49] {
                for (kind, heads, width) in
                    [(Kind::Float, 2, 64), (Kind::BFloat16, 1, 64), (Kind::Float, 3, 24)]
                {
                    check_past(kind, [position, heads, width], None);
                    check_past(kind, [position, heads, width], Some(&filled));
                }
            }
        }
    }

    #[test]
    #[should_panic(expected = "not of the type of the queries")]
    fn mixed_kinds_are_refused() {
        let ones = |kind| Tensor::ones([1, 1, 1, 16], (kind, Device::Cpu));
        let key_value = KeyValue { key: ones(Kind::BFloat16), value: ones(Kind::BFloat16) };
        let query = ones(Kind::Float).view([1, 16]);
        let _ = step_attention(&query, &key_value, &ones(Kind::Float));
    }
}
