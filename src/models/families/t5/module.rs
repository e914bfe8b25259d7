//! Any network of inputs and targets that gin can name.

use std::ops::{Deref, DerefMut};

use super::scalable::ScalableTransformer;
use super::spec::Transformer;
use crate::gin::Configurable;
use crate::models::ModuleSpec;
use crate::models::flaxformer::{EncoderDecoder, LongEncoderDecoder, PromptEncoderDecoder};
use crate::models::transformer::{DimensionNames, TransformerSpec};
use crate::nn::RematPolicy;

/// Any such network. It dereferences to the interface that all of them implement.
#[derive(Clone, Debug, PartialEq, Configurable)]
pub enum Module {
    /// T5's encoder and decoder.
    Transformer(Transformer),
    /// T5's with a bias of relative position in every layer, and layers that share arrays.
    Scalable(ScalableTransformer),
    /// T5's as flaxformer puts it together.
    Flaxformer(Box<EncoderDecoder>),
    /// LongT5's, whose encoder's positions attend to neighbours.
    LongT5(Box<LongEncoderDecoder>),
    /// T5's with a soft prompt among the encoder's tokens.
    Prompted(Box<PromptEncoderDecoder>),
}

impl Deref for Module {
    type Target = dyn ModuleSpec;

    fn deref(&self) -> &Self::Target {
        match self {
            Self::Transformer(network) => network,
            Self::Scalable(network) => network,
            Self::Flaxformer(network) => &**network,
            Self::LongT5(network) => &**network,
            Self::Prompted(network) => &**network,
        }
    }
}

impl DerefMut for Module {
    fn deref_mut(&mut self) -> &mut Self::Target {
        match self {
            Self::Transformer(network) => network,
            Self::Scalable(network) => network,
            Self::Flaxformer(network) => &mut **network,
            Self::LongT5(network) => &mut **network,
            Self::Prompted(network) => &mut **network,
        }
    }
}

/// Both networks have a configurable of that name.
const DIMENSIONS: DimensionNames = DimensionNames::of("network.T5Config");

impl ModuleSpec for Transformer {
    fn transformer(&self) -> TransformerSpec {
        self.config.transformer()
    }

    fn dimensions(&self) -> DimensionNames {
        DIMENSIONS
    }

    fn check(&self) -> Result<(), String> {
        self.config.check_initializers()?;
        self.config.check_cdq_heads()?;
        self.config.check_tying()
    }

    fn remat_parameters(&self) -> Vec<String> {
        vec![DIMENSIONS.parameter("remat_policy")]
    }

    fn set_remat_policy(&mut self, policy: RematPolicy) -> Option<()> {
        self.config.remat_policy = policy;
        Some(())
    }
}

impl ModuleSpec for ScalableTransformer {
    fn transformer(&self) -> TransformerSpec {
        self.config.transformer()
    }

    fn dimensions(&self) -> DimensionNames {
        DIMENSIONS
    }

    fn check(&self) -> Result<(), String> {
        self.config.check_axis()
    }

    fn remat_parameters(&self) -> Vec<String> {
        vec![DIMENSIONS.parameter("remat_policy")]
    }

    fn set_remat_policy(&mut self, policy: RematPolicy) -> Option<()> {
        self.config.remat_policy = policy;
        Some(())
    }
}
