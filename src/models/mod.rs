//! L3: the model families.
//!
//! [`BaseModel`] and `network` are the interface of every family; nothing outside this folder names one.
//! `spec` and each family's `spec` are torch-free: they describe the parameters and the
//! configurables. The rest runs them.

pub mod decoder_only;
pub mod decoding;
pub mod loss;
pub mod memory;
pub mod t5;
pub mod transformer;

mod base_model;
mod encoder_decoder;
mod moe;
mod spec;
mod vocabularies;

#[cfg(feature = "torch")]
mod features;
#[cfg(feature = "torch")]
mod network;
#[cfg(feature = "torch")]
mod row_facts;

pub use base_model::BaseModel;
pub use decoder_only::DecoderOnlyModel;
pub use encoder_decoder::{DecoderParams, EncoderDecoderModel, PredictBatchWithAux};
pub use moe::{MoeDecoderOnlyModel, MoeEncoderDecoderModel};
pub use spec::{Model, Module};
pub use vocabularies::{GetInputVocabulary, GetOutputVocabulary};

#[cfg(feature = "torch")]
pub use features::{Batch, feature};
#[cfg(feature = "torch")]
pub use network::{Network, Predict};
#[cfg(feature = "torch")]
pub use row_facts::RowFacts;
