//! T5 1.0, T5 1.1, mT5, umT5, ByT5 and LongT5: models of an encoder and a decoder, sized and varied by their modules.
//!
//! Source: T5X `models.py` and `examples/t5/{network,layers}.py`.

pub mod hugging_face;

mod answers;
mod encoder_decoder;
mod initializers;
mod module;
mod scalable;
pub(in crate::models::families) mod spec;
mod wayward;

#[cfg(feature = "torch")]
mod model;
#[cfg(feature = "torch")]
mod network;
#[cfg(feature = "torch")]
mod predict;
#[cfg(feature = "torch")]
mod ranking;

pub use answers::{
    CrossEntropyEncoderDecoderModel, PerceptronLossEncoderDecoderModel, RankingParameters,
};
pub use encoder_decoder::{
    DecoderParams, EncDecConverter, EncoderDecoderModel, EncoderDecoderParameters,
    MoeEncoderDecoderModel, PredictBatchWithAux, PredictWithExperts, ScoreBatch,
};
pub use initializers::FirstValues;
pub use module::Module;
pub use scalable::{ScalableConfig, ScalableTransformer};
pub use spec::{T5Config, Transformer};
pub use wayward::{EncodeString, ExecuteInitializer, Length, WaywardPromptEncoderDecoderModel};

#[cfg(feature = "torch")]
pub use model::T5;
#[cfg(feature = "torch")]
pub use predict::Predictor;
#[cfg(feature = "torch")]
pub use ranking::RankingT5;
