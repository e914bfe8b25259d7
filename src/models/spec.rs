//! Any model that gin can name.

use std::ops::Deref;

use super::contract::{BaseModel, ModuleSpec};
use super::families::bert::{BertForMaskedLM, BertForPreTraining};
use super::families::classification::{
    BertForSequenceClassification, T5EncoderForSequenceClassification,
};
use super::families::decoder_only::{DecoderOnlyModel, MoeDecoderOnlyModel};
use super::families::t5::{
    CrossEntropyEncoderDecoderModel, EncoderDecoderModel, MoeEncoderDecoderModel,
    PerceptronLossEncoderDecoderModel, WaywardPromptEncoderDecoderModel,
};
use crate::nn::RematPolicy;

crate::gin::slot! {
    /// Any model that can be trained. It dereferences to the interface that all of them implement.
    pub enum Model: BaseModel {
        BertForMaskedLM,
        BertForPreTraining,
        BertForSequenceClassification,
        CrossEntropyEncoderDecoderModel,
        DecoderOnlyModel,
        EncoderDecoderModel,
        MoeDecoderOnlyModel,
        MoeEncoderDecoderModel,
        PerceptronLossEncoderDecoderModel,
        T5EncoderForSequenceClassification,
        WaywardPromptEncoderDecoderModel,
        ..
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
    /// such choice, or is of another crate.
    pub fn with_remat_policy(&self, policy: RematPolicy) -> Option<Self> {
        let mut model = self.clone();
        match &mut model {
            Self::EncoderDecoderModel(model) => model.shared.module.set_remat_policy(policy),
            Self::CrossEntropyEncoderDecoderModel(model) => {
                model.ranking.shared.module.set_remat_policy(policy)
            }
            Self::PerceptronLossEncoderDecoderModel(model) => {
                model.ranking.shared.module.set_remat_policy(policy)
            }
            Self::MoeEncoderDecoderModel(model) => model.shared.module.set_remat_policy(policy),
            Self::WaywardPromptEncoderDecoderModel(model) => {
                model.shared.module.set_remat_policy(policy)
            }
            Self::DecoderOnlyModel(model) => model.shared.module.set_remat_policy(policy),
            Self::MoeDecoderOnlyModel(model) => model.shared.module.set_remat_policy(policy),
            Self::BertForMaskedLM(model) => model.shared.config.set_remat_policy(policy),
            Self::BertForPreTraining(model) => model.shared.config.set_remat_policy(policy),
            Self::BertForSequenceClassification(model) => model.config.set_remat_policy(policy),
            Self::T5EncoderForSequenceClassification(model) => {
                model.module.set_remat_policy(policy)
            }
            Self::Open(_) => None,
        }?;
        Some(model)
    }
}
