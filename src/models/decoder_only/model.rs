//! Models that predict the tokens after those before them.

use super::spec::DecoderWrapper;
use crate::data::{
    ConverterClass, DataError, DecoderFeatureConverter, LMFeatureConverter, Lengths,
    PrePackedLMFeatureConverter, PrePackedPrefixLMFeatureConverter, PrefixLMFeatureConverter,
    PrefixSuffixLMFeatureConverter, feature_length,
};
use crate::gin::{Configurable, Parameters, Ref};
use crate::models::BaseModel;
use crate::models::decoding::{DecodeFn, Prediction, TemperatureSample};
use crate::models::loss::{LossNormalizingFactor, LossSpec};
use crate::models::memory::StepShape;
use crate::models::t5::flaxformer;
use crate::models::transformer::{DimensionNames, TransformerSpec};
use crate::nn::RematPolicy;
use crate::optim::OptimizerDef;
use crate::vocab::VocabularySpec;

/// The configurable of the network's dimensions.
const CONFIG: DimensionNames = DimensionNames::of("network.TransformerConfig");

/// Any feature converter of a decoder-only model.
#[derive(Clone, Debug, PartialEq, Configurable)]
pub enum DecoderConverter {
    /// A converter for targets, with or without inputs.
    Decoder(DecoderFeatureConverter),
    /// A converter for targets alone.
    LM(LMFeatureConverter),
    /// A converter for inputs and targets.
    PrefixLM(PrefixLMFeatureConverter),
    /// A converter for inputs, targets and suffixes.
    PrefixSuffixLM(PrefixSuffixLMFeatureConverter),
    /// A converter for rows of targets that are packed already.
    PrePackedLM(PrePackedLMFeatureConverter),
    /// A converter for rows of inputs and targets that are packed already.
    PrePackedPrefixLM(PrePackedPrefixLMFeatureConverter),
}

impl From<DecoderConverter> for ConverterClass {
    fn from(converter: DecoderConverter) -> Self {
        match converter {
            DecoderConverter::Decoder(spec) => spec.into(),
            DecoderConverter::LM(spec) => spec.into(),
            DecoderConverter::PrefixLM(spec) => spec.into(),
            DecoderConverter::PrefixSuffixLM(spec) => spec.into(),
            DecoderConverter::PrePackedLM(spec) => spec.into(),
            DecoderConverter::PrePackedPrefixLM(spec) => spec.into(),
        }
    }
}

/// The network of a decoder-only model.
#[derive(Clone, Debug, PartialEq, Configurable)]
pub enum DecoderModule {
    /// T5X's decoder.
    DecoderWrapper(DecoderWrapper),
    /// A decoder as flaxformer puts it together.
    Flaxformer(Box<flaxformer::DecoderOnly>),
}

impl DecoderModule {
    /// The network.
    pub fn transformer(&self) -> TransformerSpec {
        match self {
            Self::DecoderWrapper(wrapper) => wrapper.config.transformer(),
            Self::Flaxformer(network) => network.transformer(),
        }
    }

    /// Lets layers keep other tensors for the backward pass; `None` if the network has no such choice.
    pub(in crate::models) fn set_remat_policy(&mut self, remat_policy: RematPolicy) -> Option<()> {
        match self {
            Self::DecoderWrapper(_) => None,
            Self::Flaxformer(network) => {
                network.set_layer_remat(flaxformer::LayerRemat::of(remat_policy));
                Some(())
            }
        }
    }

    /// The parameters that set its dimensions.
    pub fn dimensions(&self) -> DimensionNames {
        match self {
            Self::DecoderWrapper(_) => CONFIG,
            Self::Flaxformer(_) => flaxformer::DecoderOnly::DIMENSIONS,
        }
    }

    /// Finds values that contradict each other or are not supported.
    ///
    /// # Errors
    /// The first such value, with the expected ones.
    pub fn check(&self) -> Result<(), String> {
        match self {
            Self::DecoderWrapper(_) => Ok(()),
            Self::Flaxformer(network) => network.check(),
        }
    }
}

/// Parameters of every model of a decoder alone. Source: T5X `models.py`.
#[derive(Clone, Debug, PartialEq, Parameters)]
pub struct DecoderOnlyParameters {
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
    /// Divisor of the summed loss: a number, 'NUM_REAL_TARGET_TOKENS', 'NUM_TOTAL_TARGET_TOKENS' or
    /// 'AVERAGE_PER_SEQUENCE'. None keeps the sum. Its scale has no effect on Adafactor; with
    /// experts, the losses of routers, which are means, are small beside it.
    #[gin(default = None)]
    pub loss_normalizing_factor: Option<LossNormalizingFactor>,
}

/// A decoder and everything that training and decoding need besides. It reads 'targets', or 'inputs'
/// and then 'targets'. Source: T5X `models.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "t5x.models.DecoderOnlyModel")]
pub struct DecoderOnlyModel {
    /// Parameters of every such model.
    #[gin(flatten)]
    pub shared: DecoderOnlyParameters,
    /// Parameters of decoding a batch.
    #[gin(method)]
    pub predict_batch_with_aux: PredictWithPrefix,
    /// Parameters of scoring a batch.
    #[gin(method)]
    pub score_batch: ScoreTargets,
}

/// Options of decoding a batch. Source: T5X `models.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(
    name = "t5x.models.DecoderOnlyModel.predict_batch_with_aux",
    ignored(
        params = "the run gives it",
        batch = "the run gives it",
        rng = "the run gives it",
        decoder_params = "bind the decoding function's own parameters"
    )
)]
pub struct PredictWithPrefix {
    /// Whether all sequences are returned instead of the best.
    #[gin(default = false)]
    pub return_all_decodes: bool,
    /// Samples, or beams, per input.
    #[gin(default = 1)]
    pub num_decodes: usize,
}

/// Options of scoring a batch. Source: T5X `models.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(
    name = "t5x.models.DecoderOnlyModel.score_batch",
    ignored(params = "the run gives it", batch = "the run gives it")
)]
pub struct ScoreTargets {
    /// Whether `gimlet infer` writes the score, id and weight of each target beside the score of all.
    #[gin(default = false)]
    pub return_intermediates: bool,
}

impl BaseModel for DecoderOnlyModel {
    fn check(&self) -> Result<(), String> {
        self.shared.module.check()?;
        self.transformer().check(self.dimensions())
    }

    fn check_training(&self) -> Result<(), String> {
        self.loss_spec().check("models.DecoderOnlyModel")?;
        let tree = self.param_tree();
        let names = tree.iter().map(|param| &param.name[..]);
        let checked = self
            .shared
            .optimizer_def
            .check()
            .and_then(|()| self.shared.optimizer_def.check_updates(names));
        checked.map_err(|error| error.to_string())
    }

    fn dimensions(&self) -> DimensionNames {
        self.shared.module.dimensions()
    }

    fn vocabularies(&self) -> Vec<(&'static str, &VocabularySpec)> {
        ["inputs", "targets"].map(|feature| (feature, &self.shared.vocabulary)).into()
    }

    fn output_vocabulary(&self) -> &VocabularySpec {
        &self.shared.vocabulary
    }

    fn feature_converter(&self) -> ConverterClass {
        match &self.shared.feature_converter_cls {
            Some(class) => class.0.clone().into(),
            None => DecoderFeatureConverter { loss_on_targets_only: true }.into(),
        }
    }

    fn prediction_converter(&self) -> ConverterClass {
        self.feature_converter()
    }

    fn step_shape(&self, rows: usize, lengths: &Lengths) -> Result<StepShape, DataError> {
        if self.shared.inputs_bidirectional_attention {
            feature_length("inputs", lengths).map_err(|error| {
                let remedy = "models.DecoderOnlyModel.inputs_bidirectional_attention is for them";
                DataError::Config(format!("{error}; {remedy}"))
            })?;
        }
        feature_length("targets", lengths)?;
        Ok(StepShape { rows, inputs_length: 0, targets_length: lengths.values().sum(), parts: 1 })
    }

    fn optimizer_def(&self) -> &OptimizerDef {
        &self.shared.optimizer_def
    }

    fn loss_spec(&self) -> LossSpec {
        LossSpec {
            label_smoothing: self.shared.label_smoothing,
            z_loss: self.shared.z_loss,
            loss_normalizing_factor: self.shared.loss_normalizing_factor,
            divisor: None,
            routing: None,
        }
    }

    fn prediction(&self, eos_id: i64) -> Prediction {
        Prediction {
            num_decodes: self
                .shared
                .decode_fn
                .0
                .num_decodes(self.predict_batch_with_aux.num_decodes),
            decode_fn: self.shared.decode_fn.0.clone(),
            bos_id: 0,
            eos_id,
            prompt_with_targets: false,
        }
    }

    fn returns_all_decodes(&self) -> bool {
        self.predict_batch_with_aux.return_all_decodes
    }

    fn returns_intermediates(&self) -> bool {
        self.score_batch.return_intermediates
    }

    fn transformer(&self) -> TransformerSpec {
        self.shared.module.transformer()
    }
}
