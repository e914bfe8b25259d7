//! The parameters of separate layers, of arrays that hold those of several.

use std::collections::BTreeMap;

use super::division::Division;
use super::params::Params;
use super::shard::Shard;
use super::spec::{LayerParts, ParamSpec};

impl Params {
    /// Returns the parameters that a network reads, as parts of the graph: of an array of layers a view of each, whose
    /// gradients are joined in one operation; all others unchanged.
    pub fn of_layers(&self, arrays: &[ParamSpec]) -> Self {
        let (mut tensors, mut shards) = (BTreeMap::new(), BTreeMap::new());
        for ParamSpec { name, layers, .. } in arrays {
            let (tensor, shard) = (self.get(name), self.division().shards.get(name));
            let Some(parts) = layers else {
                tensors.insert(name.clone(), tensor.shallow_clone());
                shards.extend(shard.map(|shard| (name.clone(), shard.clone())));
                continue;
            };
            let layers = match parts.axis {
                Some(axis) => tensor.unbind(axis as i64),
                None => vec![tensor.shallow_clone()],
            };
            let whole = self.shard(name).whole;
            let inner = without_axis(&whole, parts.axis);
            for ((name, _), layer) in parts.parts.iter().zip(layers) {
                let joined = match parts.joined_dim(&inner) {
                    Some(dim) => layer.flatten(dim as i64, dim as i64 + 1),
                    // Kernels of norms read scales whose elements are neighbours.
                    None if layer.dim() == 1 => layer.contiguous(),
                    None => layer,
                };
                tensors.insert(name.clone(), joined);
                shards.extend(shard.map(|shard| (name.clone(), of_layer(shard, parts))));
            }
        }
        let Division { axes, splits_length, .. } = &**self.division();
        self.elsewhere(tensors, Division::new(axes.clone(), *splits_length, shards).into())
    }
}

/// The part of a layer's parameter that is here.
fn of_layer(shard: &Shard, parts: &LayerParts) -> Shard {
    let dims: Vec<usize> = (0..shard.whole.len()).collect();
    let layer = shard.of_dims(&without_axis(&dims, parts.axis));
    match parts.joined_dim(&layer.whole) {
        Some(dim) => layer.joined(dim),
        None => layer,
    }
}

fn without_axis(dims: &[usize], axis: Option<usize>) -> Vec<usize> {
    let kept = dims.iter().enumerate().filter(|(dim, _)| Some(*dim) != axis);
    kept.map(|(_, &value)| value).collect()
}
