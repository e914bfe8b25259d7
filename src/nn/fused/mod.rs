//! Operations that read and write each number once: a forward and a backward pass of ours for what libtorch
//! would do, and keep for its backward pass, in several.
//!
//! Each has one file. On CUDA a kernel of `bridge/kernels/` does the work, elsewhere libtorch's operations
//! do, and both give the same numbers but for the order of sums. Attention says itself who computes it.

mod attention;
mod gated;
pub mod kernels;
mod norm;

pub use attention::fused_attention;
pub use gated::gated_gelu;
pub use norm::{add_and_norm, rms_norm};
