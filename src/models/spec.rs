//! What gin says about a model: its network, vocabularies, optimizer, loss and decoding.

use crate::data::{DataError, DatasetConfig, TaskProvider, output_features};
use crate::gin::{Configurable, Ref};
use crate::nn::ParamSpec;
use crate::optim::OptimizerDef;
use crate::vocab::VocabularySpec;

use super::decoding::DecodeFn;
use super::loss::{LossNormalizingFactor, LossSpec};
use super::t5::{T5Config, Transformer};

/// Any model the trainer accepts.
#[derive(Clone, Debug, PartialEq, Configurable)]
pub enum Model {
    /// Text to text with an encoder and a decoder.
    EncoderDecoder(EncoderDecoderModel),
}

/// Any network of an encoder-decoder model.
#[derive(Clone, Debug, PartialEq, Configurable)]
pub enum Module {
    /// T5, mT5, ByT5.
    Transformer(Transformer),
}

/// An encoder-decoder with its vocabularies, loss, optimizer and decoding. Source: T5X `models.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(
    name = "t5x.models.EncoderDecoderModel",
    ignored(
        feature_converter_cls = "encoder-decoder models always read EncDecFeatureConverter's features",
        default_decoder_params = "bind the parameters of decode_fn itself"
    )
)]
pub struct EncoderDecoderModel {
    /// The network.
    pub module: Module,
    /// Vocabulary of the inputs.
    pub input_vocabulary: VocabularySpec,
    /// Vocabulary of the targets.
    pub output_vocabulary: VocabularySpec,
    /// The optimizer.
    pub optimizer_def: OptimizerDef,
    /// How sequences are decoded.
    #[gin(default = Ref(DecodeFn::default()))]
    pub decode_fn: Ref<DecodeFn>,
    /// Probability mass that targets give to the other tokens.
    #[gin(default = 0.0)]
    pub label_smoothing: f64,
    /// Weight of the squared logarithm of the softmax's normalizer.
    #[gin(default = 0.0)]
    pub z_loss: f64,
    /// Divisor of the summed loss; None leaves the sum.
    #[gin(default = None)]
    pub loss_normalizing_factor: Option<LossNormalizingFactor>,
    /// Parameters of prediction.
    #[gin(method)]
    pub predict_batch_with_aux: PredictBatchWithAux,
}

/// Parameters of prediction. Source: T5X `models.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(
    name = "t5x.models.EncoderDecoderModel.predict_batch_with_aux",
    ignored(decoder_params = "bind the parameters of decode_fn itself")
)]
pub struct PredictBatchWithAux {
    /// Keep every decoded sequence of an input, not the best alone.
    #[gin(default = false)]
    pub return_all_decodes: bool,
    /// Sequences decoded per input.
    #[gin(default = 1)]
    pub num_decodes: usize,
    /// Begin each sequence with the targets.
    #[gin(default = false)]
    pub prompt_with_targets: bool,
}

impl EncoderDecoderModel {
    /// Dimensions of the network.
    pub fn config(&self) -> &T5Config {
        let Module::Transformer(transformer) = &self.module;
        &transformer.config
    }

    /// What training minimizes.
    pub fn loss_spec(&self) -> LossSpec {
        LossSpec {
            label_smoothing: self.label_smoothing,
            z_loss: self.z_loss,
            loss_normalizing_factor: self.loss_normalizing_factor,
        }
    }
}

impl Model {
    /// Every parameter, sorted by name.
    pub fn param_tree(&self) -> Vec<ParamSpec> {
        let Model::EncoderDecoder(model) = self;
        model.config().param_tree()
    }

    /// The optimizer.
    pub fn optimizer_def(&self) -> &OptimizerDef {
        let Model::EncoderDecoder(model) = self;
        &model.optimizer_def
    }
}
