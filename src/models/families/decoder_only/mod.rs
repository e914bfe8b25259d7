//! T5X's decoder-only models: language models, and models that read a prefix at once.
//!
//! Source: T5X `models.py`, `DecoderOnlyModel`, and `examples/decoder_only/{network,layers}.py`.

mod model;
mod spec;

#[cfg(feature = "torch")]
mod network;
#[cfg(feature = "torch")]
mod predict;

pub use model::{
    DecoderConverter, DecoderModule, DecoderOnlyModel, DecoderOnlyParameters, DecodesParameters,
    MoeDecoderOnlyModel, PredictPrefixWithExperts, PredictWithPrefix, ScoreTargets,
};
pub use spec::{DecoderWrapper, TransformerConfig};

#[cfg(feature = "torch")]
pub use network::DecoderOnly;
