//! The arrays of NVIDIA's Transformer Engine with `fuse_qkv_params`: kernels that multiply the same inputs share an array, and
//! the scale of the norm before them stands beside it.
//!
//! Source: TransformerEngine `jax/flax/{module,transformer}.py`, with the layers that T5X's `te_helper.py` makes of them.

use std::collections::BTreeMap;

use super::spec::{StackSpec, TransformerSpec};
use crate::models::parts::{Attention, FeedForwardSpec, KernelSpec};
use crate::nn::{LayerParts, ParamSpec};

/// The axis of kernels in an array that they share.
const KERNEL_AXIS: usize = 1;

/// An array, and the parameters of which it consists.
struct FusedArray {
    name: String,
    parts: Vec<String>,
    /// The axis of the parts, unless it has one only under another name.
    axis: Option<usize>,
}

/// Returns the arrays in which the parameters `tree` of a network lie. Task adapters, which the Transformer Engine lacks,
/// keep their own.
pub(super) fn fuse(tree: Vec<ParamSpec>, spec: &TransformerSpec) -> Vec<ParamSpec> {
    let tree = tree.into_iter().map(|param| (param.name.clone(), param));
    let mut tree: BTreeMap<String, ParamSpec> = tree.collect();
    for stack in spec.stacks() {
        for array in stack.layers().flat_map(|layer| arrays_of(stack, &layer)) {
            let parts: Vec<ParamSpec> =
                array.parts.iter().filter_map(|part| tree.remove(part)).collect();
            // A stack that shares its parameters with another finds them fused.
            if !parts.is_empty() {
                let param = array.of(&parts);
                tree.insert(param.name.clone(), param);
            }
        }
    }
    tree.into_values().collect()
}

fn arrays_of(stack: &StackSpec, layer: &str) -> Vec<FusedArray> {
    let attentions = stack.attention_parts().flat_map(|it| arrays_of_attention(&it, layer));
    let blocks = stack.dims.feed_forwards();
    let mlp = blocks.first().into_iter().flat_map(|block| arrays_of_mlp(block, layer));
    attentions.chain(mlp).collect()
}

fn arrays_of_attention(attention: &Attention, layer: &str) -> [FusedArray; 2] {
    let [query, key, value] = attention.kernels(layer, ["query", "key", "value"]);
    let spec = attention.spec;
    let path = format!("{layer}/{}", spec.name);
    let (reads_norm, joined, kernels) = match spec.reads_encoding {
        true => ("query", "kv", vec![key, value]),
        false => ("qkv", "qkv", vec![query, key, value]),
    };
    [
        FusedArray::renamed(
            format!("{path}/{reads_norm}/scale"),
            format!("{}/scale", spec.norm(layer)),
        ),
        FusedArray::joined(format!("{path}/{joined}/kernel"), &kernels),
    ]
}

fn arrays_of_mlp(block: &FeedForwardSpec, layer: &str) -> [FusedArray; 3] {
    let path = format!("{layer}/{}", block.name);
    [
        FusedArray::renamed(format!("{path}/scale"), format!("{}/scale", block.norm(layer))),
        FusedArray::joined(format!("{path}/wi_kernel"), &block.inputs(layer)),
        FusedArray::renamed(format!("{path}/wo_kernel"), kernel(&block.output(layer))),
    ]
}

fn kernel(spec: &KernelSpec) -> String {
    format!("{}/kernel", spec.path)
}

impl FusedArray {
    fn renamed(name: String, part: String) -> Self {
        Self { name, parts: vec![part], axis: None }
    }

    fn joined(name: String, kernels: &[KernelSpec]) -> Self {
        Self { name, parts: kernels.iter().map(kernel).collect(), axis: Some(KERNEL_AXIS) }
    }

    /// Returns the array of these parts, of which all have one shape.
    fn of(&self, parts: &[ParamSpec]) -> ParamSpec {
        let first = &parts[0];
        let (mut shape, mut axes) = (first.shape.clone(), first.axes.clone());
        if let Some(axis) = self.axis {
            shape.insert(axis, parts.len());
            // An axis that no process divides, and by which Adafactor factors nothing.
            axes.insert(axis, "stack");
        }
        let layers = LayerParts {
            parts: parts.iter().map(|part| (part.name.clone(), part.initializer)).collect(),
            shape: first.shape.clone(),
            axis: self.axis,
        };
        ParamSpec { name: self.name.clone(), shape, axes, layers: Some(layers), ..first.clone() }
    }
}
