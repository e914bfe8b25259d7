//! The tensors that layers keep for their backward pass: each stack's module says it for itself.

use super::stacks::{DecoderFactory, EncoderFactory, LayerRemat};
use crate::nn::RematPolicy;

impl From<RematPolicy> for LayerRemat {
    fn from(policy: RematPolicy) -> Self {
        match policy {
            RematPolicy::None => Self::None,
            RematPolicy::Full => Self::Full,
            RematPolicy::Minimal => Self::Minimal,
        }
    }
}

impl EncoderFactory {
    pub(super) fn layer_remat(&self) -> &'static str {
        match self {
            Self::Dense(_) => "t5_architecture.Encoder.layer_remat",
            Self::Sparse(_) => "moe_architecture.SparseEncoder.layer_remat",
        }
    }

    pub(super) fn set_layer_remat(&mut self, policy: RematPolicy) {
        match self {
            Self::Dense(encoder) => encoder.stack.layer_remat = policy.into(),
            Self::Sparse(sparse) => sparse.encoder.stack.layer_remat = policy.into(),
        }
    }
}

impl DecoderFactory {
    pub(super) fn layer_remat(&self) -> &'static str {
        match self {
            Self::Dense(_) => "t5_architecture.Decoder.layer_remat",
            Self::Sparse(_) => "moe_architecture.SparseDecoder.layer_remat",
        }
    }

    pub(super) fn set_layer_remat(&mut self, policy: RematPolicy) {
        match self {
            Self::Dense(decoder) => decoder.stack.layer_remat = policy.into(),
            Self::Sparse(sparse) => sparse.decoder.stack.layer_remat = policy.into(),
        }
    }
}
