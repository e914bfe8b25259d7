//! L3: the model families.
//!
//! `spec` and each family's `spec` are torch-free: they say which parameters there are and what gin
//! may bind. The rest runs them.

pub mod decoding;
pub mod loss;
pub mod memory;
pub mod t5;

mod spec;

pub use spec::{EncoderDecoderModel, Model, Module, PredictBatchWithAux};

#[cfg(feature = "torch")]
mod batch;

#[cfg(feature = "torch")]
pub use batch::{Batch, Packing};
