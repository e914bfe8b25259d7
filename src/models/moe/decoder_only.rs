//! Models with experts that predict the tokens after those before them.

use super::experts::{as_without_experts, check_experts, routing_losses};
use crate::data::{ConverterClass, DataError, Lengths};
use crate::gin::{Configurable, Ref};
use crate::models::decoder_only::{
    DecoderConverter, DecoderModule, PredictWithPrefix, ScoreTargets,
};
use crate::models::decoding::{DecodeFn, Prediction, TemperatureSample};
use crate::models::loss::{LossNormalizingFactor, LossSpec};
use crate::models::memory::StepShape;
use crate::models::transformer::{DimensionNames, TransformerSpec};
use crate::models::{BaseModel, DecoderOnlyModel};
use crate::optim::OptimizerDef;
use crate::vocab::VocabularySpec;

const NAME: &str = "models.MoeDecoderOnlyModel";

/// A decoder-only model with experts: `DecoderOnlyModel` with the losses of routers. Source: T5X
/// `contrib/moe/models.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "t5x.contrib.moe.models.MoeDecoderOnlyModel")]
pub struct MoeDecoderOnlyModel {
    /// The network.
    pub module: DecoderModule,
    /// Vocabulary of all ids; its end token ends a decoded sequence.
    pub vocabulary: VocabularySpec,
    /// Optimizer, which turns gradients into updates.
    pub optimizer_def: OptimizerDef,
    /// Decoding function, which makes sequences from distributions.
    #[gin(default = Ref(DecodeFn::TemperatureSample(TemperatureSample::default())))]
    pub decode_fn: Ref<DecodeFn>,
    /// Whether all inputs attend to each other (a prefix language model), instead of only to those
    /// before them.
    #[gin(default = false)]
    pub inputs_bidirectional_attention: bool,
    /// Converts a task's features into the model's inputs; None is `seqio.DecoderFeatureConverter`.
    #[gin(default = None)]
    pub feature_converter_cls: Option<Ref<DecoderConverter>>,
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
    pub predict_batch_with_aux: PredictPrefixWithExperts,
    /// Parameters of scoring a batch.
    #[gin(method)]
    pub score_batch: ScoreTargets,
}

/// Options of decoding a batch. Source: T5X `contrib/moe/models.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(
    name = "t5x.contrib.moe.models.MoeDecoderOnlyModel.predict_batch_with_aux",
    ignored(decoder_params = "bind the decoding function's own parameters")
)]
pub struct PredictPrefixWithExperts {
    /// Whether all sequences are returned instead of the best.
    #[gin(default = false)]
    pub return_all_decodes: bool,
    /// Samples, or beams, per input.
    #[gin(default = 1)]
    pub num_decodes: usize,
}

impl MoeDecoderOnlyModel {
    /// The same model without the losses of routers.
    pub fn model(&self) -> DecoderOnlyModel {
        let predict = &self.predict_batch_with_aux;
        DecoderOnlyModel {
            module: self.module.clone(),
            vocabulary: self.vocabulary.clone(),
            optimizer_def: self.optimizer_def.clone(),
            decode_fn: self.decode_fn.clone(),
            inputs_bidirectional_attention: self.inputs_bidirectional_attention,
            feature_converter_cls: self.feature_converter_cls.clone(),
            label_smoothing: self.label_smoothing,
            z_loss: self.z_loss,
            loss_normalizing_factor: self.loss_normalizing_factor,
            predict_batch_with_aux: PredictWithPrefix {
                return_all_decodes: predict.return_all_decodes,
                num_decodes: predict.num_decodes,
            },
            score_batch: self.score_batch.clone(),
        }
    }
}

impl BaseModel for MoeDecoderOnlyModel {
    as_without_experts!();

    fn vocabularies(&self) -> Vec<(&'static str, &VocabularySpec)> {
        ["inputs", "targets"].map(|feature| (feature, &self.vocabulary)).into()
    }

    fn output_vocabulary(&self) -> &VocabularySpec {
        &self.vocabulary
    }
}
