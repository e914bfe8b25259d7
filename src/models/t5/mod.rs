//! T5 1.0, T5 1.1, mT5 and ByT5: one encoder-decoder, sized and varied by [`T5Config`].
//!
//! Source: T5X `examples/t5/{network,layers}.py`.

mod check;
mod flops;
mod memory;
mod spec;

#[cfg(feature = "torch")]
mod decoder;
#[cfg(feature = "torch")]
mod encoder;
#[cfg(feature = "torch")]
mod model;
#[cfg(feature = "torch")]
mod network;
#[cfg(feature = "torch")]
mod packed_encoder;
#[cfg(feature = "torch")]
mod packed_mlp;
#[cfg(feature = "torch")]
mod predict;
#[cfg(feature = "torch")]
mod step;

pub use flops::train_step_flops;
pub use memory::step_estimate;
pub use spec::{MAX_DISTANCE, NUM_BUCKETS, T5Config, Transformer};

#[cfg(feature = "torch")]
pub use decoder::{Decoder, DecoderContext};
#[cfg(feature = "torch")]
pub use encoder::Encoder;
#[cfg(feature = "torch")]
pub use model::T5;
#[cfg(feature = "torch")]
pub use predict::Predictor;
