//! Parameters as optimizers see them, and the arrays that an optimizer keeps for each.

use crate::nn::Dtype;

/// The description of a parameter for optimizers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParamShape<'a> {
    /// Its path, `encoder/layers_0/mlp/wo/kernel`.
    pub name: &'a str,
    /// Its shape.
    pub shape: &'a [usize],
    /// The logical axis of each dimension; read only if a rule needs them.
    pub axes: &'a [&'static str],
}

/// The arrays an optimizer keeps for one parameter.
#[derive(Clone, Debug, PartialEq)]
pub struct StateLayout {
    /// The arrays by name.
    pub slots: Vec<Slot>,
    /// Dimensions of the parameter over which its scale and its update's are averaged: all but
    /// those of stacked layers.
    pub averaged: Vec<usize>,
    /// The factoring of the second moment, if any.
    pub factored: Option<Factored>,
}

impl StateLayout {
    /// The shape of the array of that name.
    pub fn shape(&self, name: &str) -> Option<&[usize]> {
        self.slots.iter().find(|slot| slot.name == name).map(|slot| slot.shape.as_slice())
    }

    /// Returns the total number of elements.
    pub fn num_elements(&self) -> usize {
        self.slots.iter().map(|slot| slot.shape.iter().product::<usize>()).sum()
    }
}

/// One array of an optimizer's state.
#[derive(Clone, Debug, PartialEq)]
pub struct Slot {
    /// Its name in T5X's checkpoints: `m`, `v`, `v_row`, `v_col`; for optax with the place in its
    /// chain, `0/mu`.
    pub name: &'static str,
    /// Its shape; `[1]` if it has no use.
    pub shape: Vec<usize>,
    /// The parameter's dimensions that it keeps, in order; `None` if it has no use.
    pub dims: Option<Vec<usize>>,
    /// The storage format.
    pub dtype: Dtype,
    /// The value of each element before the first update.
    pub initial: f64,
}

/// The two sets of dimensions of a factored second moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Factored {
    /// Dimensions that `v_row` keeps and over which `v_col` is averaged; T5X's d1.
    pub rows: Vec<usize>,
    /// Dimensions that `v_col` keeps and over which `v_row` is averaged; T5X's d0.
    pub columns: Vec<usize>,
}
