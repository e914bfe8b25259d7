//! Presents a checkpoint of a model with `scan_layers`, which keeps all layers of a stack in one
//! array, with one array per layer. Source: T5X's `scalable_t5`, which wrote umT5's checkpoints.
//!
//! `encoder/encoder/attention/query/kernel` of shape `[emb_dim, num_layers, num_heads, head_dim]` is
//! `encoder/layers_#/attention/query/kernel` of shape `[emb_dim, num_heads * head_dim]`.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::array::{Array, ArrayInfo, DType, num_elements};
use crate::error::CheckpointError;
use crate::format::Format;
use crate::stored::Stored;
use gimlet_storage::Path;

/// The axis of the layers.
const LAYERS: usize = 1;

/// A file with more layers than this is damaged.
const MAX_LAYERS: usize = 10_000;

/// A checkpoint with separate layers.
#[derive(Debug)]
pub(super) struct Unstacked<'a> {
    from: &'a dyn Stored,
    arrays: BTreeMap<String, ArrayOrLayer>,
}

/// An array, or one layer of an array.
#[derive(Debug)]
struct ArrayOrLayer {
    source: String,
    dtype: DType,
    shape: Vec<usize>,
    /// The index of the layer, and the dimensions in the stacked array.
    layer: Option<(usize, Vec<usize>)>,
}

impl<'a> Unstacked<'a> {
    /// Wraps a checkpoint, whose layers may already be separate.
    pub(super) fn new(from: &'a dyn Stored) -> Self {
        let mut arrays = BTreeMap::new();
        for ArrayInfo { name, dtype, shape } in from.leaves() {
            let part =
                |layer, shape| ArrayOrLayer { source: name.to_string(), dtype, shape, layer };
            let stack = stacked(name).zip(shape.get(LAYERS).filter(|count| **count <= MAX_LAYERS));
            let Some(((stack, rest), count)) = stack else {
                arrays.insert(name.to_string(), part(None, shape.to_vec()));
                continue;
            };
            let mut inner = shape.to_vec();
            inner.remove(LAYERS);
            for layer in 0..*count {
                let name = format!("target/{stack}/layers_{layer}/{rest}");
                arrays.insert(name, part(Some((layer, inner.clone())), merged(rest, &inner)));
            }
        }
        Self { from, arrays }
    }

    fn part(&self, name: &str) -> Result<&ArrayOrLayer, CheckpointError> {
        self.arrays.get(name).ok_or_else(|| self.no_array(name))
    }
}

/// Splits a name into the stack and the rest: `target/encoder/encoder/mlp/wo/kernel`.
fn stacked(name: &str) -> Option<(&'static str, &str)> {
    ["encoder", "decoder"].into_iter().find_map(|stack| {
        let rest = name.strip_prefix("target/")?.strip_prefix(stack)?.strip_prefix('/')?;
        Some((stack, rest.strip_prefix(stack)?.strip_prefix('/')?))
    })
}

/// The axis that is merged with the next axis when a kernel has separate heads.
fn heads_axis(name: &str) -> usize {
    if name.ends_with("out/kernel") { 0 } else { 1 }
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

impl Stored for Unstacked<'_> {
    fn path(&self) -> &Path {
        self.from.path()
    }

    fn format(&self) -> Format {
        self.from.format()
    }

    fn step(&self) -> Result<u64, CheckpointError> {
        self.from.step()
    }

    fn leaves(&self) -> Vec<ArrayInfo<'_>> {
        let mut leaves = Vec::with_capacity(self.arrays.len());
        for (name, ArrayOrLayer { dtype, shape, .. }) in &self.arrays {
            leaves.push(ArrayInfo { name, dtype: *dtype, shape });
        }
        leaves
    }

    fn read(&self, name: &str) -> Result<Array, CheckpointError> {
        let part = self.part(name)?;
        if part.layer.is_none() {
            return self.from.read(&part.source);
        }
        let whole: Vec<Range<usize>> = part.shape.iter().map(|size| 0..*size).collect();
        self.read_part(name, &whole)
    }

    fn read_part(&self, name: &str, part: &[Range<usize>]) -> Result<Array, CheckpointError> {
        let ArrayOrLayer { source, layer, .. } = self.part(name)?;
        let Some((layer, inner)) = layer else { return self.from.read_part(source, part) };
        let mut wanted = part.to_vec();
        // The range to keep of the elements read: heads are read completely.
        let mut kept: Vec<Range<usize>> = part.iter().map(|range| 0..range.len()).collect();
        if let [_, _, _] = inner[..] {
            let axis = heads_axis(name);
            let (range, head_dim) = (&part[axis], inner[axis + 1].max(1));
            let heads = range.start / head_dim..range.end.div_ceil(head_dim);
            let first = range.start - heads.start * head_dim;
            kept[axis] = first..first + range.len();
            wanted.splice(axis..=axis, [heads, 0..head_dim]);
        }
        wanted.insert(LAYERS, *layer..layer + 1);
        let read = self.from.read_part(source, &wanted)?;
        let mut shape: Vec<usize> = wanted.iter().map(Range::len).collect();
        shape.remove(LAYERS);
        debug_assert_eq!(num_elements(&shape), num_elements(&read.shape), "one layer was read");
        let shape = if inner.len() == 3 { merged(name, &shape) } else { shape };
        Ok(Array { shape, ..read }.part(&kept))
    }
}
