//! The contract between a model and the rest: what training asks of it, and apart from that what predicting asks.
//!
//! A family implements [`BaseModel`], and with torch [`HasNetwork`] and [`Network`]. One that makes predictions also returns a
//! [`PredictionSpec`], and its network is a [`PredictingNetwork`]; one that restores masked tokens returns a [`FillSpec`], and its
//! network is a [`FillingNetwork`].

pub mod memory;

mod base_model;
mod fill_spec;
mod module_spec;
mod prediction_spec;

#[cfg(feature = "torch")]
mod features;
#[cfg(feature = "torch")]
mod network;
#[cfg(feature = "torch")]
mod row_facts;

pub use base_model::BaseModel;
pub use fill_spec::{FillSpec, NoFilling};
pub use module_spec::ModuleSpec;
pub use prediction_spec::{NoPredictions, PredictionSpec};

#[cfg(feature = "torch")]
pub use features::{Batch, BatchShape, feature};
#[cfg(feature = "torch")]
pub use network::{FillingNetwork, HasNetwork, Network, Predict, PredictingNetwork};
#[cfg(feature = "torch")]
pub use row_facts::RowFacts;

/// The tensors of a model, which only a build with torch has.
#[cfg(not(feature = "torch"))]
mod network {
    pub trait HasNetwork {}

    impl<T> HasNetwork for T {}
}
