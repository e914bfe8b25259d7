//! A head that names the class of a row, by the hidden state of one of its positions.

mod spec;

#[cfg(feature = "torch")]
mod tensors;

pub use spec::{ClassHead, ReadPosition};
