//! Decoding on CPUs: kernels of ours for the products, attentions and searches of predictions, which libtorch's own operations
//! compute as well. Where they do not suit, such as on GPUs, each falls back to these.
//!
//! Everything about them is in this folder and in the files of `bridge/` with the same names; decision 17 says why they are
//! there.

mod beam_step;
mod packed;
mod screen;
mod step_attention;
pub mod team;

pub use beam_step::{BestColumns, reorder_hypotheses};
pub use packed::{PackedKernel, largest_columns};
pub use step_attention::{KeyValue, Past, has_step_kernels, past_attention, step_attention};
