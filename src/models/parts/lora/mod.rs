//! LoRA: additions of low rank to kernels of layers. It is no part of a layer by itself: every product of a layer adds
//! what its kernels' factors give.

mod spec;

pub use spec::LoRA;
