//! The arrays in which the parameters of layers lie. The network reads those of separate layers, with heads joined; T5X's
//! `scalable_t5` and NVIDIA's Transformer Engine keep them otherwise, in memory as in checkpoints.

use std::collections::BTreeMap;

use super::fused_arrays::fuse;
use super::spec::TransformerSpec;
use crate::nn::{LayerParts, ParamSpec};

/// The axis of layers in T5X's `scalable_t5`.
pub const SCAN_AXIS: usize = 1;

/// The arrays of the parameters of layers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LayerArrays {
    /// Each layer has its own, `encoder/layers_3/...`, and kernels of attentions join heads: `[embed, joined_kv]`.
    #[default]
    Joined,
    /// Each layer has its own, and kernels of attentions have an axis of heads: `[embed, heads, kv]`.
    ByHead,
    /// The layers of a stack share each array, `encoder/encoder/...`, and have an axis of it: `[embed, layers, heads, kv]`.
    Stacked,
    /// Each layer has its own, and kernels with the same inputs share one: `encoder/layers_3/attention/qkv/kernel`,
    /// `[embed, 3, joined_kv]`.
    Fused,
}

impl LayerArrays {
    /// Returns the arrays in which the parameters `tree` of a network lie.
    pub(super) fn arrange(self, tree: Vec<ParamSpec>, spec: &TransformerSpec) -> Vec<ParamSpec> {
        let by_head = |param| by_head(param, spec.last.dims.head_dim);
        match self {
            Self::Joined => tree,
            Self::ByHead => tree.into_iter().map(by_head).collect(),
            Self::Stacked => stack(tree.into_iter().map(by_head)),
            Self::Fused => fuse(tree, spec),
        }
    }
}

/// Joins the parameters of all layers of a stack.
fn stack(tree: impl Iterator<Item = ParamSpec>) -> Vec<ParamSpec> {
    let mut stacks = BTreeMap::<String, ParamSpec>::new();
    for param in tree {
        let Some((name, layer)) = stacked_name(&param.name) else {
            stacks.insert(param.name.clone(), param);
            continue;
        };
        let stack = stacks.entry(name.clone()).or_insert_with(|| stack_of(name, &param));
        let parts = stack.layers.as_mut().expect("it is made with parts");
        if layer == parts.parts.len() {
            parts.parts.push((own_name(&param), param.initializer));
            stack.shape[SCAN_AXIS] += 1;
        }
    }
    stacks.into_values().collect()
}

/// Gives a kernel of an attention an axis of heads.
fn by_head(param: ParamSpec, head_dim: usize) -> ParamSpec {
    let Some(dim) = param.axes.iter().position(|axis| *axis == "joined_kv") else { return param };
    let (mut shape, mut axes) = (param.shape.clone(), param.axes.clone());
    shape.splice(dim..=dim, [param.shape[dim] / head_dim, head_dim]);
    axes.splice(dim..=dim, ["heads", "kv"]);
    let parts = vec![(param.name.clone(), param.initializer)];
    let parts = LayerParts { parts, shape: param.shape, axis: None };
    ParamSpec { shape, axes, layers: Some(parts), ..param }
}

/// Splits `encoder/layers_3/mlp/wo/kernel` into the name of the array of all layers, `encoder/encoder/mlp/wo/kernel`, and
/// the number of the layer.
fn stacked_name(name: &str) -> Option<(String, usize)> {
    let (stack, rest) = name.split_once("/layers_")?;
    let (layer, rest) = rest.split_once('/')?;
    Some((format!("{stack}/{stack}/{rest}"), layer.parse().ok()?))
}

/// Returns the array of a stack that has no layers yet, for parameters like this one.
fn stack_of(name: String, layer: &ParamSpec) -> ParamSpec {
    let (mut shape, mut axes) = (layer.shape.clone(), layer.axes.clone());
    shape.insert(SCAN_AXIS, 0);
    axes.insert(SCAN_AXIS, "layers");
    let joined = layer.layers.as_ref().map_or(&layer.shape, |parts| &parts.shape);
    let parts = LayerParts { parts: Vec::new(), shape: joined.clone(), axis: Some(SCAN_AXIS) };
    ParamSpec { name, shape, axes, layers: Some(parts), ..layer.clone() }
}

/// The name of a layer's parameter as the network reads it.
fn own_name(param: &ParamSpec) -> String {
    param.layers.as_ref().map_or(&param.name, |parts| &parts.parts[0].0).clone()
}
