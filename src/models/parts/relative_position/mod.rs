//! Biases of relative position: one learned number for each head and bucket of distance, added to attention scores.

mod spec;

#[cfg(feature = "torch")]
mod biases;

pub use spec::RelativeBias;
