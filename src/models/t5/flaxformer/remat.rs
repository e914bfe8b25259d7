//! The tensors that layers keep for their backward pass: each stack's module says it for itself.

use super::long_stacks::LongEncoderDecoder;
use super::stacks::{DecoderFactory, DecoderOnly, EncoderDecoder, EncoderFactory, LayerRemat};
use crate::nn::RematPolicy;

impl LayerRemat {
    /// The value with that meaning.
    pub fn of(policy: RematPolicy) -> Self {
        match policy {
            RematPolicy::None => Self::None,
            RematPolicy::Full => Self::Full,
            RematPolicy::Minimal => Self::Minimal,
        }
    }
}

impl EncoderFactory {
    fn layer_remat(&self) -> &'static str {
        match self {
            Self::Dense(_) => "t5_architecture.Encoder.layer_remat",
            Self::Sparse(_) => "moe_architecture.SparseEncoder.layer_remat",
        }
    }

    fn set_layer_remat(&mut self, value: LayerRemat) {
        match self {
            Self::Dense(encoder) => encoder.stack.layer_remat = value,
            Self::Sparse(sparse) => sparse.encoder.stack.layer_remat = value,
        }
    }
}

impl DecoderFactory {
    fn layer_remat(&self) -> &'static str {
        match self {
            Self::Dense(_) => "t5_architecture.Decoder.layer_remat",
            Self::Sparse(_) => "moe_architecture.SparseDecoder.layer_remat",
        }
    }

    fn set_layer_remat(&mut self, value: LayerRemat) {
        match self {
            Self::Dense(decoder) => decoder.stack.layer_remat = value,
            Self::Sparse(sparse) => sparse.decoder.stack.layer_remat = value,
        }
    }
}

impl EncoderDecoder {
    /// Names of the parameters that say it.
    pub fn layer_remats(&self) -> [&'static str; 2] {
        [self.encoder_factory.0.layer_remat(), self.decoder_factory.0.layer_remat()]
    }

    /// Sets them.
    pub fn set_layer_remat(&mut self, value: LayerRemat) {
        self.encoder_factory.0.set_layer_remat(value);
        self.decoder_factory.0.set_layer_remat(value);
    }
}

impl DecoderOnly {
    /// Name of the parameter that says it.
    pub fn layer_remats(&self) -> [&'static str; 1] {
        [self.decoder_factory.0.layer_remat()]
    }

    /// Sets it.
    pub fn set_layer_remat(&mut self, value: LayerRemat) {
        self.decoder_factory.0.set_layer_remat(value);
    }
}

impl LongEncoderDecoder {
    /// Names of the parameters that say it.
    pub fn layer_remats(&self) -> [&'static str; 2] {
        ["longt5_architecture.LongEncoder.layer_remat", "t5_architecture.Decoder.layer_remat"]
    }

    /// Sets them.
    pub fn set_layer_remat(&mut self, value: LayerRemat) {
        self.encoder_factory.0.stack.layer_remat = value;
        self.decoder_factory.0.stack.layer_remat = value;
    }
}
