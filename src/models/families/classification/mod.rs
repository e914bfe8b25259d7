//! Encoders that name the class of a row: a BERT, or the encoder of a T5, with a head of classes. The classes are the tokens of
//! the targets' vocabulary, so that they are measured, predicted and scored as targets of one token.

mod model;

#[cfg(feature = "torch")]
mod network;

pub use model::{BertForSequenceClassification, T5EncoderForSequenceClassification};
