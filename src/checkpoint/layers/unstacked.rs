//! Presents a checkpoint of T5X's `scalable_t5` with one array per layer and with joined heads, and one of NVIDIA's Transformer
//! Engine with one array per kernel.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::ops::{Deref, Range};

use super::fused::{Fused, fused};
use super::{LAYERS, heads_axis, is_kernel_by_head, merged, stacked};
use crate::array::{Array, ArrayInfo, DType, num_elements};
use crate::error::CheckpointError;
use crate::format::Format;
use crate::stored::Stored;
use gimlet_storage::Path;

/// A file with more layers than this is damaged.
const MAX_LAYERS: usize = 10_000;

/// A checkpoint with separate layers.
#[derive(Debug)]
pub(crate) struct Unstacked<S> {
    from: S,
    arrays: BTreeMap<String, ArrayOrLayer>,
}

/// An array, or one layer of an array.
#[derive(Debug)]
struct ArrayOrLayer {
    source: String,
    dtype: DType,
    shape: Vec<usize>,
    /// `None` for an array that is presented as it is.
    layer: Option<Layer>,
}

/// A layer of an array, or a kernel of one that holds several.
#[derive(Debug)]
struct Layer {
    /// Its index, if the array has an axis of layers or kernels.
    index: Option<usize>,
    /// Its dimensions there.
    inner: Vec<usize>,
}

impl<S: Deref<Target: Stored> + Debug + Send + Sync> Unstacked<S> {
    /// Wraps a checkpoint, whose layers may already be separate.
    pub(crate) fn new(from: S) -> Self {
        let mut arrays = BTreeMap::new();
        for ArrayInfo { name, dtype, shape } in from.leaves() {
            let part =
                |layer, shape| ArrayOrLayer { source: name.to_string(), dtype, shape, layer };
            if let Some(Fused { parts, has_axis }) = fused(name, shape) {
                let mut inner = shape.to_vec();
                has_axis.then(|| inner.remove(LAYERS));
                for (index, name) in parts.into_iter().enumerate() {
                    let layer =
                        has_axis.then(|| Layer { index: Some(index), inner: inner.clone() });
                    arrays.insert(name, part(layer, inner.clone()));
                }
                continue;
            }
            let stack = stacked(name).zip(shape.get(LAYERS).filter(|count| **count <= MAX_LAYERS));
            let Some(((stack, rest), count)) = stack else {
                let inner = is_kernel_by_head(name, shape).then(|| shape.to_vec());
                let layer = inner.map(|inner| Layer { index: None, inner });
                let shape = if layer.is_some() { merged(name, shape) } else { shape.to_vec() };
                arrays.insert(name.to_string(), part(layer, shape));
                continue;
            };
            let mut inner = shape.to_vec();
            inner.remove(LAYERS);
            for layer in 0..*count {
                let name = format!("target/{stack}/layers_{layer}/{rest}");
                let shape = merged(rest, &inner);
                let layer = Layer { index: Some(layer), inner: inner.clone() };
                arrays.insert(name, part(Some(layer), shape));
            }
        }
        Self { from, arrays }
    }

    /// The checkpoint as it is.
    pub(crate) fn into_inner(self) -> S {
        self.from
    }

    fn part(&self, name: &str) -> Result<&ArrayOrLayer, CheckpointError> {
        self.arrays.get(name).ok_or_else(|| self.no_array(name))
    }
}

impl<S: Deref<Target: Stored> + Debug + Send + Sync> Stored for Unstacked<S> {
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
        let Some(Layer { index, inner }) = layer else {
            return self.from.read_part(source, part);
        };
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
        if let Some(index) = index {
            wanted.insert(LAYERS, *index..index + 1);
        }
        let read = self.from.read_part(source, &wanted)?;
        let mut shape: Vec<usize> = wanted.iter().map(Range::len).collect();
        index.map(|_| shape.remove(LAYERS));
        debug_assert_eq!(num_elements(&shape), num_elements(&read.shape), "one layer was read");
        let shape = if inner.len() == 3 { merged(name, &shape) } else { shape };
        Ok(Array { shape, ..read }.part(&kept))
    }
}
