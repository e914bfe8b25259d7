//! The families of models. Each has its parameters, its models and its network; the contract hides
//! which one a model is of.

pub mod bert;
pub mod classification;
pub mod decoder_only;
pub mod flaxformer;
pub mod t5;

mod parameters;

#[cfg(feature = "torch")]
mod predicts_targets;
