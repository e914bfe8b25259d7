//! Decodes sequences from a model's distributions: T5X's beam search and temperature sampling, and transformers'
//! `generate`.
//!
//! Answers may be limited to a [set](AnswerSet).
//!
//! The algorithms know a model only as [`NextLogits`], which gets the last token of every
//! hypothesis and returns the logits of the next. Source: T5X `decoding.py`.

mod constraint;
mod generate;
mod spec;

#[cfg(feature = "torch")]
mod allowed_tokens;
#[cfg(feature = "torch")]
mod beam_search;
#[cfg(feature = "torch")]
mod search_rules;
#[cfg(feature = "torch")]
mod temperature_sample;

pub use constraint::{
    AnswerSet, AnswerSetParameters, Choices, Constraint, ConstraintError, Constraints, Target,
};
pub use generate::{EarlyStopping, Generate};
pub use spec::{BeamSearch, DecodeError, DecodeFn, Prediction, TemperatureSample};

#[cfg(feature = "torch")]
pub use decode::{Decodes, NextLogits, Observer, Prompt};

#[cfg(feature = "torch")]
mod decode;
