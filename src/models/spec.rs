//! Any model, and any network, that gin can name.

use std::ops::Deref;

use super::base_model::BaseModel;
use super::decoder_only::DecoderOnlyModel;
use super::encoder_decoder::EncoderDecoderModel;
use super::t5::Transformer;
use crate::gin::Configurable;

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

/// Any network.
#[derive(Clone, Debug, PartialEq, Configurable)]
pub enum Module {
    /// T5's encoder and decoder.
    Transformer(Transformer),
}
