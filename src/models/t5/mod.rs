//! T5 1.0, T5 1.1, mT5, umT5 and ByT5: one encoder-decoder, sized and varied by [`T5Config`].
//!
//! Source: T5X `examples/t5/{network,layers}.py`.

pub mod flaxformer;
mod scalable;
mod spec;

#[cfg(feature = "torch")]
mod model;
#[cfg(feature = "torch")]
mod network;
#[cfg(feature = "torch")]
mod predict;

pub use scalable::{ScalableConfig, ScalableTransformer};
pub use spec::{T5Config, Transformer};

#[cfg(feature = "torch")]
pub use model::T5;
#[cfg(feature = "torch")]
pub use predict::Predictor;
