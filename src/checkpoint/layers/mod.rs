//! Checkpoints of T5X's `scalable_t5`, which wrote umT5's: with `scan_layers` all layers of a stack lie in one array, and
//! kernels of attentions have an axis of heads.
//!
//! `encoder/encoder/attention/query/kernel` of shape `[emb_dim, num_layers, num_heads, head_dim]` is
//! `encoder/layers_#/attention/query/kernel` of shape `[emb_dim, num_heads * head_dim]`.
//!
//! Checkpoints of NVIDIA's Transformer Engine likewise: `encoder/layers_#/attention/qkv/kernel` of shape `[emb_dim, 3, joined_kv]`
//! holds three kernels.

mod arranged;
mod fused;
mod unstacked;

pub use arranged::arranged;
pub(crate) use unstacked::Unstacked;

/// The axis of the layers.
const LAYERS: usize = 1;

/// Splits a name into the stack and the rest: `target/encoder/encoder/mlp/wo/kernel`.
fn stacked(name: &str) -> Option<(&'static str, &str)> {
    ["encoder", "decoder"].into_iter().find_map(|stack| {
        let rest = name.strip_prefix("target/")?.strip_prefix(stack)?.strip_prefix('/')?;
        Some((stack, rest.strip_prefix(stack)?.strip_prefix('/')?))
    })
}

/// Whether an array is the kernel of a layer's attention with an axis of heads, or a factor of an addition to it.
fn is_kernel_by_head(name: &str, shape: &[usize]) -> bool {
    let mut parts = name.rsplit('/');
    let (last, of) = (parts.next(), parts.next());
    let is_projection = matches!(of, Some("query" | "key" | "value" | "out"));
    let is_kernel =
        matches!(last, Some("kernel" | "lora_a" | "lora_b")) && is_projection && shape.len() == 3;
    is_kernel && name.starts_with("target/") && name.contains("/layers_")
}

/// The axis that is merged with the next axis when a kernel has separate heads.
fn heads_axis(name: &str) -> usize {
    if ["out/kernel", "out/lora_a"].iter().any(|end| name.ends_with(end)) { 0 } else { 1 }
}

/// The dimensions with the axis of heads merged with the axis of their size.
fn merged(name: &str, shape: &[usize]) -> Vec<usize> {
    let mut merged = shape.to_vec();
    if shape.len() == 3 {
        let axis = heads_axis(name);
        merged[axis] *= merged.remove(axis + 1);
    }
    merged
}
