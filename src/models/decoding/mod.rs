//! Turning a model's distributions into sequences: beam search and temperature sampling.
//!
//! The algorithms know a model only as [`NextLogits`]: give it the last token of every hypothesis, get
//! the logits of the next. Source: T5X `decoding.py`.

mod spec;

#[cfg(feature = "torch")]
mod beam_search;
#[cfg(feature = "torch")]
mod temperature_sample;

pub use spec::{BeamSearch, DecodeError, DecodeFn, Prediction, TemperatureSample};

#[cfg(feature = "torch")]
pub use decode::{Decodes, NextLogits, Prompt};

#[cfg(feature = "torch")]
mod decode;
