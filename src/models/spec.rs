//! Any model, and any network, that gin can name.

use std::ops::Deref;

use super::base_model::BaseModel;
use super::decoder_only::DecoderOnlyModel;
use super::encoder_decoder::EncoderDecoderModel;
use super::t5::Transformer;
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
                let Module::Transformer(network) = &mut model.module;
                network.config.remat_policy = remat_policy;
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
}
