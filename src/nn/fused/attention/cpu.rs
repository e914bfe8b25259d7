//! Attention on CPUs, block by block: the Rust side of `bridge/attention.cpp`.

use std::ptr::null_mut;

use tch::{Kind, Tensor};

use crate::nn::Heads;
use crate::nn::autograd::{RawTensor, check, custom_function, raw};
use crate::nn::masks::AttentionBias;
use crate::nn::profiler::{Activity, part};

#[repr(C)]
struct RawAttention {
    query: RawTensor,
    key: RawTensor,
    value: RawTensor,
    factors: RawTensor,
    position: RawTensor,
    allowed: RawTensor,
}

unsafe extern "C" {
    fn gimlet_attention_forward(
        operands: RawAttention,
        out: RawTensor,
        softmax: RawTensor,
    ) -> *mut std::ffi::c_char;
    fn gimlet_attention_backward(
        operands: RawAttention,
        softmax: RawTensor,
        out_gradient: RawTensor,
        gradients: RawAttention,
    ) -> *mut std::ffi::c_char;
}

/// The inputs of an attention, detached.
struct Operands {
    query: Tensor,    // [batch, num_heads, q_length, head_dim]
    key: Tensor,      // [batch, num_heads, kv_length, head_dim]
    value: Tensor,    // as the keys
    factors: Tensor,  // [batch, num_heads, kv_length, 1], or undefined
    position: Tensor, // [1, num_heads, q_length, kv_length], or undefined
    allowed: Tensor,  // bool [batch, 1, q_length, kv_length]
}

/// See [`super::fused_attention`]. Scores and weights are never completely in memory, neither now
/// nor for the backward pass.
pub(super) fn attention(heads: &Heads, factors: Option<&Tensor>, bias: &AttentionBias) -> Tensor {
    let _part = part(Activity::Attention);
    let undefined = Tensor::new;
    let position = bias.position.as_ref().map_or_else(undefined, Tensor::shallow_clone);
    let kept = heads.detach();
    let [query, key, value] = kept.split();
    let operands = Operands {
        query,
        key,
        value,
        factors: factors.map_or_else(undefined, Tensor::shallow_clone),
        position: if position.defined() { position.detach() } else { undefined() },
        allowed: bias.allowed.shallow_clone(),
    };
    let (out, softmax) = tch::no_grad(|| operands.forward());
    let position_needs = position.defined() && position.requires_grad();
    let backward = move |gradients: Vec<Tensor>| {
        let position = if position_needs { operands.position.empty_like() } else { Tensor::new() };
        let found = kept.empty_like();
        operands.backward(&softmax, &gradients[0], (&found, &position));
        let mut found = found.joined.into_wholes();
        found.push(position);
        found
    };
    let mut read: Vec<&Tensor> = heads.joined.wholes().iter().collect();
    read.push(&position);
    custom_function(&read, vec![out], backward).remove(0)
}

impl Operands {
    fn raw(&self) -> RawAttention {
        RawAttention {
            query: raw(&self.query),
            key: raw(&self.key),
            value: raw(&self.value),
            factors: raw(&self.factors),
            position: raw(&self.position),
            allowed: raw(&self.allowed),
        }
    }

    /// Returns the result `[batch, q_length, num_heads * head_dim]` and the numbers with which the
    /// softmax of each query was made.
    fn forward(&self) -> (Tensor, Tensor) {
        let (batch, heads, queries, width) = self.query.size4().expect("queries have four axes");
        let options = (self.query.kind(), self.query.device());
        let out = Tensor::empty([batch, queries, heads * width], options);
        let softmax = Tensor::empty([2, batch, heads, queries, 1], (Kind::Float, options.1));
        let by_head = split_heads(&out, heads);
        // SAFETY: all tensors outlive the call.
        check(unsafe { gimlet_attention_forward(self.raw(), raw(&by_head), raw(&softmax)) });
        (out, softmax)
    }

    /// Writes the gradients of queries, keys and values, and of the position if it is defined.
    fn backward(
        &self,
        softmax: &Tensor,
        out_gradient: &Tensor,
        (heads, position): (&Heads, &Tensor),
    ) {
        let _part = part(Activity::Attention);
        let [query, key, value] = heads.split();
        let gradients = RawAttention {
            query: raw(&query),
            key: raw(&key),
            value: raw(&value),
            factors: null_mut(),
            position: raw(position),
            allowed: null_mut(),
        };
        let out_gradient = split_heads(out_gradient, heads.count);
        // SAFETY: all tensors outlive the call; the bridge does not read null tensors.
        check(unsafe {
            gimlet_attention_backward(self.raw(), raw(softmax), raw(&out_gradient), gradients)
        });
    }
}

/// `[batch, length, num_heads * head_dim]` as `[batch, num_heads, length, head_dim]`.
fn split_heads(joined: &Tensor, num_heads: i64) -> Tensor {
    let (batch, length, width) = joined.size3().expect("activations are [batch, length, embed]");
    joined.reshape([batch, length, num_heads, width / num_heads]).transpose(1, 2)
}
