//! Any model, and any network, that gin can name.

use std::ops::Deref;

use super::base_model::BaseModel;
use super::decoder_only::DecoderOnlyModel;
use super::encoder_decoder::EncoderDecoderModel;
use super::t5::{ScalableTransformer, T5Config, Transformer};
use super::transformer::LayerArrays;
use crate::gin::Configurable;
use crate::nn::RematPolicy;

crate::gin::slot! {
    /// Any model that can be trained. It dereferences to the interface that all of them implement.
    pub enum Model: BaseModel {
        DecoderOnlyModel,
        EncoderDecoderModel,
    }
}

impl Deref for Model {
    type Target = dyn BaseModel;

    fn deref(&self) -> &Self::Target {
        self.spec()
    }
}

impl Model {
    /// Returns the same model whose layers keep other tensors for the backward pass; `None` if its network has no
    /// such choice.
    pub fn with_remat_policy(&self, remat_policy: RematPolicy) -> Option<Self> {
        match self.clone() {
            Self::EncoderDecoderModel(mut model) => {
                match &mut model.module {
                    Module::Transformer(network) => network.config.remat_policy = remat_policy,
                    Module::Scalable(network) => network.config.remat_policy = remat_policy,
                }
                Some(Self::EncoderDecoderModel(model))
            }
            Self::DecoderOnlyModel(_) => None,
        }
    }
}

/// Any network.
#[derive(Clone, Debug, PartialEq, Configurable)]
pub enum Module {
    /// T5's encoder and decoder.
    Transformer(Transformer),
    /// T5's with a bias of relative position in every layer, and layers that share arrays.
    Scalable(ScalableTransformer),
}

impl Module {
    /// The network's dimensions.
    pub fn config(&self) -> T5Config {
        match self {
            Self::Transformer(network) => network.config.clone(),
            Self::Scalable(network) => network.config.t5_config(),
        }
    }

    /// The arrays in which the parameters of its layers lie.
    pub fn layer_arrays(&self) -> LayerArrays {
        match self {
            Self::Transformer(network) => network.config.layer_arrays(),
            Self::Scalable(network) => network.config.layer_arrays(),
        }
    }

    /// Finds values that contradict each other or are not supported.
    ///
    /// # Errors
    /// The first such value, with the expected ones.
    pub fn check(&self) -> Result<(), String> {
        match self {
            Self::Transformer(network) => network.config.check_tying(),
            Self::Scalable(network) => network.config.check_axis(),
        }
    }
}
