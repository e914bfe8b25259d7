//! Decodes sequences from a model's distributions: beam search and temperature sampling.
//!
//! The algorithms know a model only as [`NextLogits`], which gets the last token of every
//! hypothesis and returns the logits of the next. Source: T5X `decoding.py`.

mod spec;

#[cfg(feature = "torch")]
mod beam_search;
#[cfg(feature = "torch")]
mod temperature_sample;

pub use spec::{BeamSearch, DecodeError, DecodeFn, Prediction, TemperatureSample};

#[cfg(feature = "torch")]
pub use decode::{Decodes, NextLogits, Observer, Prompt};

#[cfg(feature = "torch")]
mod decode;
