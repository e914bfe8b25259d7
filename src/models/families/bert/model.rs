//! Models that restore masked tokens.

use super::spec::{BertConfig, BertHeads};
use crate::checkpoint::HuggingFaceOptions;
use crate::data::{
    ConverterClass, DataError, EncoderFeatureConverter, Lengths, PassThroughFeatureConverter,
    feature_length,
};
use crate::gin::{Configurable, Parameters};
use crate::models::contract::memory::StepShape;
use crate::models::contract::{BaseModel, FillSpec, ModuleSpec};
use crate::models::heads::{LossNormalizingFactor, LossSpec};
use crate::models::parts::LoRA;
use crate::models::transformer::TransformerSpec;
use crate::optim::OptimizerDef;
use crate::vocab::VocabularySpec;

/// Parameters of every BERT.
#[derive(Clone, Debug, PartialEq, Parameters)]
pub struct BertParameters {
    /// The network.
    pub config: BertConfig,
    /// Vocabulary of all ids.
    pub vocabulary: VocabularySpec,
    /// Optimizer, which turns gradients into updates.
    pub optimizer_def: OptimizerDef,
    /// Additions of low rank to the network's kernels; None has none.
    #[gin(default = None)]
    pub lora: Option<LoRA>,
    /// The id of masked tokens, for tasks with 'inputs' that are masked and 'targets' that are not. None reads examples that
    /// have the model's own features: `encoder_input_tokens`, `encoder_target_tokens` and `encoder_loss_weights`, perhaps
    /// `encoder_token_types`.
    #[gin(default = None)]
    pub mask_id: Option<i64>,
    /// Divisor of the sum of each loss: of masked tokens, and of pairs of texts. See
    /// `t5x.models.EncoderDecoderModel.loss_normalizing_factor`.
    #[gin(default = LossNormalizingFactor::NumRealTargetTokens)]
    pub loss_normalizing_factor: LossNormalizingFactor,
}

/// A BERT that restores masked tokens and recognizes whether the second text of a row follows the first, by
/// `next_sentence_label`. Source: transformers `modeling_bert.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "bert.BertForPreTraining")]
pub struct BertForPreTraining {
    /// Parameters of every BERT.
    #[gin(flatten)]
    pub shared: BertParameters,
}

/// A BERT that restores masked tokens. Source: transformers `modeling_bert.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "bert.BertForMaskedLM")]
pub struct BertForMaskedLM {
    /// Parameters of every BERT.
    #[gin(flatten)]
    pub shared: BertParameters,
}

impl BertParameters {
    fn feature_converter(&self) -> ConverterClass {
        match self.mask_id {
            Some(mask_id) => EncoderFeatureConverter { mask_id }.into(),
            None => PassThroughFeatureConverter {}.into(),
        }
    }

    /// Features of a task that are as long as a row, those with tokens first.
    fn features(&self) -> &'static [&'static str] {
        match self.mask_id {
            Some(_) => &["inputs", "targets"],
            None => &["encoder_input_tokens", "encoder_target_tokens", "encoder_loss_weights"],
        }
    }

    fn step_shape(&self, rows: usize, lengths: &Lengths) -> Result<StepShape, DataError> {
        let read = self.features();
        let length = feature_length(read[0], lengths)?;
        for feature in &read[1..] {
            let other = feature_length(feature, lengths)?;
            if other != length {
                return Err(DataError::Config(format!(
                    "'{}' and '{feature}' have {length} and {other} tokens, expected the same number",
                    read[0]
                )));
            }
        }
        self.config.check_length(length).map_err(DataError::Config)?;
        Ok(StepShape::whole(rows, [length]))
    }

    fn fill_spec(&self) -> FillSpec {
        FillSpec {
            vocabulary: self.vocabulary.clone(),
            max_tokens: self.config.max_position_embeddings,
            max_tokens_name: "bert.BertConfig.max_position_embeddings",
        }
    }

    fn loss_spec(&self) -> LossSpec {
        LossSpec {
            loss_normalizing_factor: Some(self.loss_normalizing_factor),
            ..LossSpec::default()
        }
    }

    fn check(&self, name: &str, heads: BertHeads) -> Result<(), String> {
        if heads == BertHeads::MaskedTokensAndOrder && self.mask_id.is_some() {
            return Err(format!(
                "{name}.mask_id is given, for tasks without `next_sentence_label`, which {name} reads: use \
                 @bert.BertForMaskedLM()"
            ));
        }
        let rows = self.config.vocab_size;
        let is_row = |id: &i64| usize::try_from(*id).is_ok_and(|id| id < rows);
        match self.mask_id.filter(|id| !is_row(id)) {
            None => Ok(()),
            Some(id) => Err(format!(
                "{name}.mask_id is {id}, expected an id of the embedding, which has {rows} rows"
            )),
        }
    }
}

/// Implements the contract for a model with `shared` parameters.
macro_rules! bert {
    ($model:ty, $heads:expr) => {
        impl BaseModel for $model {
            fn module(&self) -> &dyn ModuleSpec {
                &self.shared.config
            }

            fn vocabularies(&self) -> Vec<(&'static str, &VocabularySpec)> {
                let features = self.shared.features().iter().take(2);
                features.map(|feature| (*feature, &self.shared.vocabulary)).collect()
            }

            fn feature_converter(&self) -> ConverterClass {
                self.shared.feature_converter()
            }

            fn step_shape(&self, rows: usize, lengths: &Lengths) -> Result<StepShape, DataError> {
                self.shared.step_shape(rows, lengths)
            }

            fn lora(&self) -> Option<&LoRA> {
                self.shared.lora.as_ref()
            }

            fn optimizer_def(&self) -> &OptimizerDef {
                &self.shared.optimizer_def
            }

            fn loss_spec(&self) -> LossSpec {
                self.shared.loss_spec()
            }

            fn fills(&self) -> Option<FillSpec> {
                Some(self.shared.fill_spec())
            }

            fn hugging_face(&self) -> Result<HuggingFaceOptions, String> {
                super::hugging_face::stated(&self.shared.config)
            }

            fn check_own(&self) -> Result<(), String> {
                self.shared.check(self.name(), $heads)
            }

            fn transformer(&self) -> TransformerSpec {
                self.shared.config.network($heads).with_lora(self.lora())
            }
        }
    };
}

bert!(BertForPreTraining, BertHeads::MaskedTokensAndOrder);
bert!(BertForMaskedLM, BertHeads::MaskedTokens);
