//! Masked tokens: the likeliest pieces for each `[MASK]` of a text, as the pipeline `fill-mask` of transformers finds them.

mod encoder;

#[cfg(feature = "torch")]
mod file;
#[cfg(feature = "torch")]
mod filler;

pub use encoder::FillEncoder;

#[cfg(feature = "torch")]
pub use file::{FillProgress, fill_lines};
#[cfg(feature = "torch")]
pub use filler::{Filler, Piece};

/// The number of pieces for each mask, if none is given.
pub const DEFAULT_TOPK: usize = 5;

/// Checks a number of pieces; `name` is the one of the flag or the field in the message.
///
/// # Errors
/// It is 0.
pub fn check_topk(name: &str, topk: usize) -> Result<(), String> {
    match topk {
        0 => Err(format!("`{name}` is 0, expected at least 1: the number of pieces for each mask")),
        _ => Ok(()),
    }
}
