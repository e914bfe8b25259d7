//! Any model, and any network, that gin can name.

use std::ops::Deref;

use super::base_model::BaseModel;
use super::decoder_only::{DecoderModule, DecoderOnlyModel};
use super::encoder_decoder::EncoderDecoderModel;
use super::moe::{MoeDecoderOnlyModel, MoeEncoderDecoderModel};
use super::t5::flaxformer::{EncoderDecoder, LayerRemat, LongEncoderDecoder};
use super::t5::{ScalableTransformer, Transformer};
use super::transformer::{DimensionNames, TransformerSpec};
use crate::gin::Configurable;
use crate::nn::RematPolicy;

crate::gin::slot! {
    /// Any model that can be trained. It dereferences to the interface that all of them implement.
    pub enum Model: BaseModel {
        DecoderOnlyModel,
        EncoderDecoderModel,
        MoeDecoderOnlyModel,
        MoeEncoderDecoderModel,
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
                model.shared.module.set_remat_policy(remat_policy)?;
                Some(Self::EncoderDecoderModel(model))
            }
            Self::MoeEncoderDecoderModel(mut model) => {
                model.shared.module.set_remat_policy(remat_policy)?;
                Some(Self::MoeEncoderDecoderModel(model))
            }
            Self::DecoderOnlyModel(mut model) => {
                model.shared.module.set_remat_policy(remat_policy)?;
                Some(Self::DecoderOnlyModel(model))
            }
            Self::MoeDecoderOnlyModel(mut model) => {
                model.shared.module.set_remat_policy(remat_policy)?;
                Some(Self::MoeDecoderOnlyModel(model))
            }
        }
    }

    /// Names of the parameters that say what layers keep for the backward pass; none if the network has no such choice.
    pub fn remat_parameters(&self) -> Vec<String> {
        let of_dimensions = || vec![self.dimensions().parameter("remat_policy")];
        let own = match self {
            Self::EncoderDecoderModel(EncoderDecoderModel { shared, .. })
            | Self::MoeEncoderDecoderModel(MoeEncoderDecoderModel { shared, .. }) => {
                match &shared.module {
                    Module::Transformer(_) | Module::Scalable(_) => return of_dimensions(),
                    Module::Flaxformer(network) => network.layer_remats().to_vec(),
                    Module::LongT5(network) => network.layer_remats().to_vec(),
                }
            }
            Self::DecoderOnlyModel(DecoderOnlyModel { shared, .. })
            | Self::MoeDecoderOnlyModel(MoeDecoderOnlyModel { shared, .. }) => match &shared.module
            {
                DecoderModule::DecoderWrapper(_) => Vec::new(),
                DecoderModule::Flaxformer(network) => network.layer_remats().to_vec(),
            },
        };
        own.into_iter().map(str::to_string).collect()
    }
}

/// Any network.
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
}

impl Module {
    /// Lets layers keep other tensors for the backward pass; `None` if the network has no such choice.
    fn set_remat_policy(&mut self, remat_policy: RematPolicy) -> Option<()> {
        match self {
            Self::Transformer(network) => network.config.remat_policy = remat_policy,
            Self::Scalable(network) => network.config.remat_policy = remat_policy,
            Self::Flaxformer(network) => network.set_layer_remat(LayerRemat::of(remat_policy)),
            Self::LongT5(network) => network.set_layer_remat(LayerRemat::of(remat_policy)),
        }
        Some(())
    }

    /// The network.
    pub fn transformer(&self) -> TransformerSpec {
        match self {
            Self::Transformer(network) => network.config.transformer(),
            Self::Scalable(network) => network.config.transformer(),
            Self::Flaxformer(network) => network.transformer(),
            Self::LongT5(network) => network.transformer(),
        }
    }

    /// The parameters that set its dimensions.
    pub fn dimensions(&self) -> DimensionNames {
        match self {
            Self::Transformer(_) | Self::Scalable(_) => DimensionNames::of("network.T5Config"),
            Self::Flaxformer(_) => EncoderDecoder::DIMENSIONS,
            Self::LongT5(_) => LongEncoderDecoder::DIMENSIONS,
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
            Self::Flaxformer(network) => network.check(),
            Self::LongT5(network) => network.check(),
        }
    }
}
