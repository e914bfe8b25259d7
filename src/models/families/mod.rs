//! The families of models. Each has its parameters, its models and its network; nothing outside this folder names one, but for
//! the list of models in `spec.rs`.

pub mod decoder_only;
pub mod flaxformer;
pub mod t5;

mod parameters;

#[cfg(feature = "torch")]
mod predicts_targets;
