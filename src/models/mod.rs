//! L3: the model families.
//!
//! `spec` and each family's `spec` are torch-free: they describe the parameters and the
//! configurables. The rest runs them.

pub mod decoding;
pub mod flops;
pub mod loss;
pub mod memory;
pub mod t5;

mod spec;

#[cfg(feature = "torch")]
mod batch;

pub use spec::{DecoderParams, EncoderDecoderModel, Model, Module, PredictBatchWithAux};

#[cfg(feature = "torch")]
pub use batch::{Batch, Packing, RowFacts};
