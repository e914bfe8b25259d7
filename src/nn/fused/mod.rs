//! Operations that read and write each number once: one forward and one backward pass in place of
//! several operations of libtorch, each of which would keep tensors for its backward pass.
//!
//! Each has one file. A kernel of `bridge/kernels/`, for CUDA or for CPUs, does the work; where it does not accept the
//! tensors, libtorch's operations do, with the same results except for the order of sums. Attention documents its own
//! implementations.

mod attention;
mod gated;
pub mod kernels;
mod norm;

pub use attention::fused_attention;
pub use gated::gated_gelu;
pub use norm::{RmsNorm, add_and_norm, rms_norm};
