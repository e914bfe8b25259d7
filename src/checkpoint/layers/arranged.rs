//! Presents the parameters of a checkpoint in the arrays that a model has, if they lie in others: those of separate layers, of
//! separate heads, of a whole stack, or of several kernels.

use std::collections::{BTreeMap, BTreeSet};

use super::fused::{Fused, fused};
use super::{LAYERS, Unstacked, merged, stacked};
use crate::array::{Array, ArrayInfo, DType, Shapes, num_elements};
use crate::error::CheckpointError;
use crate::format::{Format, Without};
use crate::stored::Stored;
use crate::t5x_tree::TARGET;
use gimlet_storage::Path;

/// A checkpoint without its optimizer's state, which has another form for layers in other arrays.
#[derive(Debug)]
struct Arranged {
    from: Unstacked<Box<dyn Stored>>,
    /// The arrays that are made of others.
    made: BTreeMap<String, Made>,
    /// The arrays of others, which are not presented.
    parts: BTreeSet<String>,
}

/// An array that is made of those of layers or kernels.
#[derive(Debug)]
struct Made {
    dtype: DType,
    shape: Vec<usize>,
    layers: Vec<String>,
    has_axis: bool,
}

/// Returns the checkpoint with its parameters in the arrays that a model `needs`; unchanged if they lie in those, or are
/// those of another model.
pub fn arranged(stored: Box<dyn Stored>, needs: &Shapes) -> Box<dyn Stored> {
    if fits(&stored.shapes(), needs) {
        return stored;
    }
    let from = Unstacked::new(stored);
    let found: BTreeMap<String, (DType, Vec<usize>)> = from
        .leaves()
        .into_iter()
        .map(|leaf| (leaf.name.to_string(), (leaf.dtype, leaf.shape.to_vec())))
        .collect();
    let lacking = needs.iter().filter(|(name, shape)| {
        name.starts_with(TARGET) && found.get(*name).map(|(_, shape)| shape) != Some(*shape)
    });
    let made: BTreeMap<String, Made> = lacking
        .filter_map(|(name, shape)| Some((name.clone(), Made::of(name, shape, &found)?)))
        .collect();
    let parts = made.values().flat_map(|made| made.layers.iter().cloned()).collect();
    let arranged = Arranged { from, made, parts };
    match fits(&arranged.shapes(), needs) {
        true => Box::new(arranged),
        false => arranged.from.into_inner(),
    }
}

/// Whether all parameters are there.
fn fits(found: &Shapes, needs: &Shapes) -> bool {
    let mut needed = needs.iter().filter(|(name, _)| name.starts_with(TARGET));
    needed.all(|(name, shape)| found.get(name) == Some(shape))
}

impl Made {
    /// Returns how an array of that shape is made; `None` if its parts are not there.
    fn of(
        name: &str,
        shape: &[usize],
        found: &BTreeMap<String, (DType, Vec<usize>)>,
    ) -> Option<Self> {
        let mut inner = shape.to_vec();
        let layers = match (fused(name, shape), stacked(name)) {
            (Some(Fused { parts, has_axis }), _) => {
                has_axis.then(|| inner.remove(LAYERS));
                parts
            }
            (None, None) => vec![name.to_string()],
            (None, Some((stack, rest))) => {
                let count = (shape.len() > LAYERS).then(|| inner.remove(LAYERS))?;
                let layer = |index| format!("{TARGET}{stack}/layers_{index}/{rest}");
                if found.contains_key(&layer(count)) {
                    return None;
                }
                (0..count).map(layer).collect()
            }
        };
        let shape_of_layer = merged(name, &inner);
        let is_there = |layer: &String| found.get(layer).is_some_and(|(_, s)| *s == shape_of_layer);
        let dtype = found.get(layers.first()?)?.0;
        let is_whole = layers.iter().all(is_there);
        let has_axis = inner.len() < shape.len();
        is_whole.then(|| Self { dtype, shape: shape.to_vec(), layers, has_axis })
    }

    /// Joins the layers, whose elements lie one after the other along the axes below that of layers.
    fn join(&self, layers: &[Array]) -> Array {
        let rows = if self.has_axis { num_elements(&self.shape[..LAYERS]) } else { 1 };
        let mut data = Vec::with_capacity(layers.iter().map(|layer| layer.data.len()).sum());
        for row in 0..rows {
            for Array { data: layer, .. } in layers {
                let bytes = layer.len() / rows.max(1);
                data.extend_from_slice(&layer[row * bytes..(row + 1) * bytes]);
            }
        }
        Array { dtype: self.dtype, shape: self.shape.clone(), data }
    }
}

impl Stored for Arranged {
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
        let is_kept = |leaf: &ArrayInfo<'_>| {
            let is_slot = Without::Slots.concerns(leaf.name);
            !is_slot && !self.parts.contains(leaf.name)
        };
        let mut leaves: Vec<_> = self.from.leaves().into_iter().filter(is_kept).collect();
        let made = self.made.iter();
        leaves.extend(made.map(|(name, made)| ArrayInfo {
            name,
            dtype: made.dtype,
            shape: &made.shape,
        }));
        leaves.sort_by_key(|leaf| leaf.name);
        leaves
    }

    fn read(&self, name: &str) -> Result<Array, CheckpointError> {
        let Some(made) = self.made.get(name) else { return self.from.read(name) };
        let layers = made.layers.iter().map(|layer| self.from.read(layer));
        Ok(made.join(&layers.collect::<Result<Vec<_>, _>>()?))
    }

    fn without(&self) -> Without {
        match self.from.format().without_state(&Shapes::new()) {
            Without::State => Without::State,
            _ => Without::OtherSlots,
        }
    }
}
