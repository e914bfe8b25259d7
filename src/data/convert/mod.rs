//! From task features to model features. Source: SeqIO `feature_converters.py`, `utils.py`.
//!
//! Every architecture has a converter. It defines the fields of a row and the model features made
//! from them; trimming, packing and batching are the same for all.

mod answers;
mod batch;
mod classes;
mod contract;
mod converter;
mod decoder;
mod encoder;
mod encoder_decoder;
mod pass_through;
mod row;
mod rows;
mod shift;

pub use answers::ValidLabelOnlyEncDecFeatureConverter;
pub use batch::{Batch, BatchFeature, BatchValues};
pub use classes::ClassFeatureConverter;
pub use contract::{Lengths, feature_length};
pub use converter::{ConverterClass, FeatureConverter, Packing};
pub use decoder::{
    DecoderFeatureConverter, LMFeatureConverter, PrefixLMFeatureConverter,
    PrefixSuffixLMFeatureConverter,
};
pub use encoder::EncoderFeatureConverter;
pub use encoder_decoder::{EncDecFeatureConverter, PrePackedEncDecFeatureConverter};
pub use pass_through::{
    PassThroughFeatureConverter, PrePackedLMFeatureConverter, PrePackedPrefixLMFeatureConverter,
};
pub use shift::make_autoregressive_inputs;

pub(crate) use row::Row;
pub(crate) use rows::Rows;
