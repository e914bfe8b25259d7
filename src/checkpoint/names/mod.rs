//! Names and layouts of a T5's arrays in other programs. Each family has one table, which is read
//! in both directions.

pub(super) mod hugging_face;
pub(super) mod mesh;

use super::array::DType;

/// Relation of the axes of a stored matrix to T5X's axes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Axes {
    /// The axes are the same.
    Same,
    /// The axes are swapped: PyTorch's `Linear` stores `[out, in]`, flax `[in, out]`.
    Swapped,
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

/// Splits a name and its number, which follows `before` and precedes `after`: `layers_12/x` gives
/// (`layers_#/x`, 12). `None` when there is no number, or a number with a leading zero.
fn take_number(name: &str, before: &str, after: char) -> Option<(String, usize)> {
    let at = name.find(before)? + before.len();
    let digits = name[at..].split(after).next()?;
    let number: usize = digits.parse().ok()?;
    if number.to_string() != digits {
        return None;
    }
    Some((format!("{}#{}", &name[..at], &name[at + digits.len()..]), number))
}
