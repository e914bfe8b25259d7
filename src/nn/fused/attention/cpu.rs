//! On CPUs, block by block: the Rust side of `bridge/attention.cpp`.

use tch::{Kind, Tensor};

use crate::nn::autograd::{RawTensor, check, custom_function, raw};
use crate::nn::masks::AttentionBias;
use crate::nn::profiler::{Part, part};

#[repr(C)]
struct RawAttention {
    query: RawTensor,
    key: RawTensor,
    value: RawTensor,
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

/// What an attention reads, detached.
struct Operands {
    query: Tensor,    // [batch, num_heads, q_length, head_dim]
    key: Tensor,      // [batch, num_heads, kv_length, head_dim]
    value: Tensor,    // as the keys
    position: Tensor, // [1, num_heads, q_length, kv_length], or undefined
    allowed: Tensor,  // bool [batch, 1, q_length, kv_length]
}

/// See [`super::fused_attention`]. Scores and weights are never held whole, neither now nor for the backward
/// pass.
pub(super) fn attention(
    query: &Tensor,
    key: &Tensor,
    value: &Tensor,
    bias: &AttentionBias,
) -> Tensor {
    let _part = part(Part::Attention);
    let undefined = Tensor::new;
    let position = bias.position.as_ref().map_or_else(undefined, Tensor::shallow_clone);
    let operands = Operands {
        query: query.detach(),
        key: key.detach(),
        value: value.detach(),
        position: if position.defined() { position.detach() } else { undefined() },
        allowed: bias.allowed.shallow_clone(),
    };
    let (out, softmax) = tch::no_grad(|| operands.forward());
    let position_needs = position.defined() && position.requires_grad();
    let backward =
        move |gradients: Vec<Tensor>| operands.backward(&softmax, &gradients[0], position_needs);
    custom_function(&[query, key, value, &position], vec![out], backward).remove(0)
}

impl Operands {
    fn raw(&self) -> RawAttention {
        RawAttention {
            query: raw(&self.query),
            key: raw(&self.key),
            value: raw(&self.value),
            position: raw(&self.position),
            allowed: raw(&self.allowed),
        }
    }

    /// The result `[batch, q_length, num_heads * head_dim]` and what the softmax of
    /// each query was made with.
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

    /// Gradients of query, key, value and position.
    fn backward(
        &self,
        softmax: &Tensor,
        out_gradient: &Tensor,
        position_needs: bool,
    ) -> Vec<Tensor> {
        let _part = part(Part::Attention);
        let heads = self.query.size()[1];
        let like = |tensor: &Tensor| {
            let joined = tensor.transpose(1, 2);
            Tensor::empty(joined.size(), (tensor.kind(), tensor.device())).transpose(1, 2)
        };
        let position = if position_needs { self.position.empty_like() } else { Tensor::new() };
        let found = [like(&self.query), like(&self.key), like(&self.value), position];
        let gradients = RawAttention {
            query: raw(&found[0]),
            key: raw(&found[1]),
            value: raw(&found[2]),
            position: raw(&found[3]),
            allowed: std::ptr::null_mut(),
        };
        let out_gradient = split_heads(out_gradient, heads);
        // SAFETY: all tensors outlive the call; the bridge does not read `allowed` of the gradients.
        check(unsafe {
            gimlet_attention_backward(self.raw(), raw(softmax), raw(&out_gradient), gradients)
        });
        found.into()
    }
}

/// `[batch, length, num_heads * head_dim]` as `[batch, num_heads, length, head_dim]`.
fn split_heads(joined: &Tensor, num_heads: i64) -> Tensor {
    let (batch, length, width) = joined.size3().expect("activations are [batch, length, embed]");
    joined.reshape([batch, length, num_heads, width / num_heads]).transpose(1, 2)
}
