//! Decoding as transformers' `generate` does it: the same changes to logits, in the same order, before the most
//! probable token is taken, a token is drawn, or beams are compared. Source: transformers 5.24,
//! `generation/logits_process.py` and `generation/utils.py`.

mod spec;

#[cfg(feature = "torch")]
mod cuts;
#[cfg(feature = "torch")]
mod decode;
#[cfg(feature = "torch")]
mod filters;

pub use spec::{EarlyStopping, Generate};

#[cfg(feature = "torch")]
pub(super) use filters::Filters;
