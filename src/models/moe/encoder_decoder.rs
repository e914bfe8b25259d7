//! Models with experts that read inputs and write targets.

use super::experts::{as_without_experts, check_experts, routing_losses};
use crate::data::{ConverterClass, DataError, Lengths};
use crate::gin::{Configurable, Ref};
use crate::models::decoding::{DecodeFn, Prediction};
use crate::models::encoder_decoder::{EncDecConverter, ScoreBatch};
use crate::models::loss::{LossNormalizingFactor, LossSpec};
use crate::models::memory::StepShape;
use crate::models::transformer::{DimensionNames, TransformerSpec};
use crate::models::{BaseModel, EncoderDecoderModel, Module, PredictBatchWithAux};
use crate::optim::OptimizerDef;
use crate::vocab::VocabularySpec;

const NAME: &str = "models.MoeEncoderDecoderModel";

/// An encoder-decoder model with experts: `EncoderDecoderModel` with the losses of routers. Source: T5X
/// `contrib/moe/models.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "t5x.contrib.moe.models.MoeEncoderDecoderModel")]
pub struct MoeEncoderDecoderModel {
    /// The network.
    pub module: Module,
    /// Vocabulary of the inputs' ids.
    pub input_vocabulary: VocabularySpec,
    /// Vocabulary of the targets' ids; its end token ends a decoded sequence.
    pub output_vocabulary: VocabularySpec,
    /// Optimizer, which turns gradients into updates.
    pub optimizer_def: OptimizerDef,
    /// Decoding function, which makes sequences from distributions.
    #[gin(default = Ref(DecodeFn::default()))]
    pub decode_fn: Ref<DecodeFn>,
    /// Converts a task's features into the model's inputs; None is `seqio.EncDecFeatureConverter`.
    #[gin(default = None)]
    pub feature_converter_cls: Option<Ref<EncDecConverter>>,
    /// Probability mass that the target gives to the other tokens.
    #[gin(default = 0.0, limit = BelowOne)]
    pub label_smoothing: f64,
    /// Weight of the squared logarithm of the softmax's normalizer, which keeps logits near 0.
    #[gin(default = 0.0, limit = NonNegative)]
    pub z_loss: f64,
    /// Divisor of the summed loss of targets: a number, 'NUM_REAL_TARGET_TOKENS', 'NUM_TOTAL_TARGET_TOKENS' or
    /// 'AVERAGE_PER_SEQUENCE'. None keeps the sum, beside which the losses of routers, which are means, are small.
    #[gin(default = None)]
    pub loss_normalizing_factor: Option<LossNormalizingFactor>,
    /// Weight of the loss that balances the load of experts, averaged over layers (Fedus et al. 2021, arXiv:2101.03961).
    #[gin(default = 0.0, limit = NonNegative)]
    pub aux_loss_factor: f64,
    /// Weight of the loss that keeps the scores of routers small, averaged over layers (Zoph et al. 2022,
    /// arXiv:2202.08906).
    #[gin(default = 0.0, limit = NonNegative)]
    pub router_z_loss_factor: f64,
    /// Parameters of decoding a batch.
    #[gin(method)]
    pub predict_batch_with_aux: PredictWithExperts,
    /// Parameters of scoring a batch.
    #[gin(method)]
    pub score_batch: ScoreBatch,
}

/// Options of decoding a batch. Source: T5X `contrib/moe/models.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(
    name = "t5x.contrib.moe.models.MoeEncoderDecoderModel.predict_batch_with_aux",
    ignored(decoder_params = "bind the decoding function's own parameters")
)]
pub struct PredictWithExperts {
    /// Whether all sequences are returned instead of the best.
    #[gin(default = false)]
    pub return_all_decodes: bool,
    /// Beams, or samples, per input.
    #[gin(default = 1)]
    pub num_decodes: usize,
    /// Whether sequences begin with the targets, for completing them.
    #[gin(default = false)]
    pub prompt_with_targets: bool,
}

impl MoeEncoderDecoderModel {
    /// The same model without the losses of routers.
    pub fn model(&self) -> EncoderDecoderModel {
        let predict = &self.predict_batch_with_aux;
        EncoderDecoderModel {
            module: self.module.clone(),
            input_vocabulary: self.input_vocabulary.clone(),
            output_vocabulary: self.output_vocabulary.clone(),
            optimizer_def: self.optimizer_def.clone(),
            decode_fn: self.decode_fn.clone(),
            bos_id: 0,
            eos_id: None,
            label_smoothing: self.label_smoothing,
            z_loss: self.z_loss,
            loss_normalizing_factor: self.loss_normalizing_factor,
            feature_converter_cls: self.feature_converter_cls.clone(),
            default_decoder_params: None,
            predict_batch_with_aux: PredictBatchWithAux {
                return_all_decodes: Some(predict.return_all_decodes),
                num_decodes: Some(predict.num_decodes),
                prompt_with_targets: predict.prompt_with_targets,
            },
            score_batch: self.score_batch.clone(),
        }
    }
}

impl BaseModel for MoeEncoderDecoderModel {
    as_without_experts!();

    fn vocabularies(&self) -> Vec<(&'static str, &VocabularySpec)> {
        vec![("inputs", &self.input_vocabulary), ("targets", &self.output_vocabulary)]
    }

    fn output_vocabulary(&self) -> &VocabularySpec {
        &self.output_vocabulary
    }
}
