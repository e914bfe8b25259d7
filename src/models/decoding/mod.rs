//! Decodes sequences from a model's distributions: T5X's beam search and temperature sampling, and transformers'
//! `generate`.
//!
//! The algorithms know a model only as [`NextLogits`], which gets the last token of every
//! hypothesis and returns the logits of the next. Source: T5X `decoding.py`.

mod generate;
mod spec;

#[cfg(feature = "torch")]
mod beam_search;
#[cfg(feature = "torch")]
mod search_rules;
#[cfg(feature = "torch")]
mod temperature_sample;

pub use generate::{EarlyStopping, Generate};
pub use spec::{BeamSearch, DecodeError, DecodeFn, Prediction, TemperatureSample};

#[cfg(feature = "torch")]
pub use decode::{Decodes, NextLogits, Observer, Prompt};

#[cfg(feature = "torch")]
mod decode;
