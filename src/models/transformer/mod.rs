//! Transformers, put together from [`parts`](super::parts). A [`TransformerSpec`] describes one, and its parameters, passes,
//! memory and operations are sums of its parts' answers; families differ in the specs that they make,
//! and in the masks and features that they read.
//!
//! Source: T5X `examples/t5/{network,layers}.py`.

mod check;
mod flops;
mod fused_arrays;
mod layer_arrays;
mod memory;
mod params;
mod sparse;
mod spec;
mod traffic;
mod work;

#[cfg(feature = "torch")]
mod begin;
#[cfg(feature = "torch")]
mod decoding;
#[cfg(feature = "torch")]
mod layer;
#[cfg(feature = "torch")]
mod packed;
#[cfg(feature = "torch")]
mod reach;
#[cfg(feature = "torch")]
mod sequences;
#[cfg(feature = "torch")]
mod stack;
#[cfg(feature = "torch")]
mod step;

pub use check::DimensionNames;
pub use layer_arrays::{LayerArrays, SCAN_AXIS};
pub use sparse::{LayerLayout, SparseLayers};
pub use spec::{
    LAYER_NORM_EPSILON, LayerDims, LayerInitializers, LayerStyle, StackEnd, StackSpec,
    TransformerSpec, kernel_init,
};

#[cfg(feature = "torch")]
pub use decoding::Decoding;
#[cfg(feature = "torch")]
pub use layer::Passed;
#[cfg(feature = "torch")]
pub use packed::PackedStack;
#[cfg(feature = "torch")]
pub use reach::Visible;
#[cfg(feature = "torch")]
pub use stack::{Encoding, Stack, StackInput};
#[cfg(feature = "torch")]
pub use step::DecoderCache;
