//! Names and layouts of arrays in other programs. Each has tables, which are read in both directions: those of transformers
//! come from the families of models, that of Mesh TensorFlow's T5 stands here.

pub(super) mod hugging_face;
pub(super) mod mesh;
pub(super) mod trainer;

use super::array::DType;

/// Relation of the axes of a stored matrix to T5X's axes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Axes {
    /// The axes are the same.
    Same,
    /// The axes are swapped: PyTorch's `Linear` stores `[out, in]`, flax `[in, out]`.
    Swapped,
}

impl Axes {
    /// Returns the dimensions of an array with the other order of axes.
    pub(super) fn of(self, shape: &[usize]) -> Vec<usize> {
        match self {
            Self::Same => shape.to_vec(),
            Self::Swapped => shape.iter().rev().copied().collect(),
        }
    }
}

/// Source of an array under T5X's name.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Origin {
    /// The tensor of this name.
    Tensor(String, Axes),
    /// The quotient of the tensor of this name and a number, as float32.
    Divided(String, Axes, f64),
    /// The number of this name, which T5X keeps in 32 bits.
    Step(String),
    /// A number that the other program states beside its tensors.
    Number(i32),
    /// No source: T5X's optimizers expect zeros that the other program does not store.
    Zeros,
}

/// An array as T5X would store it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct T5xArray {
    /// Source of its values.
    pub origin: Origin,
    /// The type of its elements.
    pub dtype: DType,
    /// Its dimensions, in T5X's order.
    pub shape: Vec<usize>,
}

/// Parses the number of a layer; `None` for another text, and for a number with a leading zero.
fn layer_number(digits: &str) -> Option<usize> {
    digits.parse().ok().filter(|number: &usize| number.to_string() == digits)
}
