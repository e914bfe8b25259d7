//! How other programs name and lay out the arrays of a T5. One table a family, read in both directions.

pub(super) mod hugging_face;
pub(super) mod mesh;

use super::array::DType;

/// How the axes of a stored matrix relate to those of T5X's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Axes {
    /// They are the same.
    Same,
    /// The first is T5X's second: PyTorch's `Linear` holds `[out, in]`, flax `[in, out]`.
    Swapped,
}

/// Where an array under T5X's name comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// The tensor of this name.
    Tensor(String, Axes),
    /// The number of this name, which T5X keeps in 32 bits.
    Step(String),
    /// Nowhere: T5X's optimizers want zeros where the program keeps nothing.
    Zeros,
}

/// An array as T5X would hold it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    /// Where its values come from.
    pub origin: Origin,
    /// The type of its elements.
    pub dtype: DType,
    /// Its dimensions, in T5X's order.
    pub shape: Vec<usize>,
}

/// A name without its number, which follows `before` and ends with `after`: `layers_12/x` is
/// (`layers_#/x`, 12). `None` where there is no number, or one with a leading zero.
fn take_number(name: &str, before: &str, after: char) -> Option<(String, usize)> {
    let at = name.find(before)? + before.len();
    let digits = name[at..].split(after).next()?;
    let number: usize = digits.parse().ok()?;
    if number.to_string() != digits {
        return None;
    }
    Some((format!("{}#{}", &name[..at], &name[at + digits.len()..]), number))
}
