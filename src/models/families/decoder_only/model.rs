//! Models that predict the tokens after those before them, with experts or without.

use std::ops::{Deref, DerefMut};

use super::spec::DecoderWrapper;
use crate::data::{
    ConverterClass, DataError, DecoderFeatureConverter, LMFeatureConverter, Lengths,
    PrePackedLMFeatureConverter, PrePackedPrefixLMFeatureConverter, PrefixLMFeatureConverter,
    PrefixSuffixLMFeatureConverter, feature_length,
};
use crate::gin::{Configurable, Parameters, Ref};
use crate::models::contract::memory::StepShape;
use crate::models::contract::{BaseModel, ModuleSpec, PredictionSpec};
use crate::models::decoding::{AnswerSetParameters, DecodeFn, TemperatureSample};
use crate::models::families::flaxformer;
use crate::models::families::parameters::{
    LossParameters, RoutingLossFactors, check_experts, of_shared,
};
use crate::models::heads::LossSpec;
use crate::models::parts::LoRA;
use crate::models::transformer::{DimensionNames, TransformerSpec};
use crate::optim::OptimizerDef;
use crate::vocab::VocabularySpec;

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

impl Deref for DecoderModule {
    type Target = dyn ModuleSpec;

    fn deref(&self) -> &Self::Target {
        match self {
            Self::DecoderWrapper(network) => network,
            Self::Flaxformer(network) => &**network,
        }
    }
}

impl DerefMut for DecoderModule {
    fn deref_mut(&mut self) -> &mut Self::Target {
        match self {
            Self::DecoderWrapper(network) => network,
            Self::Flaxformer(network) => &mut **network,
        }
    }
}

impl ModuleSpec for DecoderWrapper {
    fn transformer(&self) -> TransformerSpec {
        self.config.transformer()
    }

    fn dimensions(&self) -> DimensionNames {
        DimensionNames::of("network.TransformerConfig")
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
    /// Additions of low rank to the network's kernels; None has none.
    #[gin(default = None)]
    pub lora: Option<LoRA>,
    /// Converts a task's features into the model's inputs; None is `seqio.DecoderFeatureConverter`.
    #[gin(default = None)]
    pub feature_converter_cls: Option<Ref<DecoderConverter>>,
    /// Parameters of the loss.
    #[gin(flatten)]
    pub loss: LossParameters,
}

/// The sequences that decoding a batch makes and returns. Source: T5X `models.py`.
#[derive(Clone, Debug, PartialEq, Parameters)]
pub struct DecodesParameters {
    /// Whether all sequences are returned instead of the best.
    #[gin(default = false)]
    pub return_all_decodes: bool,
    /// Samples, or beams, per input.
    #[gin(default = 1)]
    pub num_decodes: usize,
    /// The answers that are possible.
    #[gin(flatten)]
    pub answers: AnswerSetParameters,
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
    /// Parameters of every such model.
    #[gin(flatten)]
    pub decodes: DecodesParameters,
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

/// A decoder-only model with experts: `DecoderOnlyModel` with the losses of routers. Source: T5X
/// `contrib/moe/models.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "t5x.contrib.moe.models.MoeDecoderOnlyModel")]
pub struct MoeDecoderOnlyModel {
    /// Parameters of the model without experts.
    #[gin(flatten)]
    pub shared: DecoderOnlyParameters,
    /// Weights of the losses of routers.
    #[gin(flatten)]
    pub routing: RoutingLossFactors,
    /// Parameters of decoding a batch.
    #[gin(method)]
    pub predict_batch_with_aux: PredictPrefixWithExperts,
    /// Parameters of scoring a batch.
    #[gin(method)]
    pub score_batch: ScoreTargets,
}

/// Options of decoding a batch by a model with experts. Source: T5X `contrib/moe/models.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(
    name = "t5x.contrib.moe.models.MoeDecoderOnlyModel.predict_batch_with_aux",
    ignored(decoder_params = "bind the decoding function's own parameters")
)]
pub struct PredictPrefixWithExperts {
    /// Parameters of every such model.
    #[gin(flatten)]
    pub decodes: DecodesParameters,
}

impl DecoderOnlyParameters {
    fn vocabularies(&self) -> Vec<(&'static str, &VocabularySpec)> {
        ["inputs", "targets"].map(|feature| (feature, &self.vocabulary)).into()
    }

    fn feature_converter(&self) -> ConverterClass {
        match &self.feature_converter_cls {
            Some(class) => class.0.clone().into(),
            None => DecoderFeatureConverter { loss_on_targets_only: true }.into(),
        }
    }

    fn step_shape(&self, rows: usize, lengths: &Lengths) -> Result<StepShape, DataError> {
        if self.inputs_bidirectional_attention {
            feature_length("inputs", lengths).map_err(|error| {
                let remedy = "models.DecoderOnlyModel.inputs_bidirectional_attention is for them";
                DataError::Config(format!("{error}; {remedy}"))
            })?;
        }
        feature_length("targets", lengths)?;
        Ok(StepShape::whole(rows, [lengths.values().sum()]))
    }

    fn predictions(
        &self,
        decodes: &DecodesParameters,
        score_batch: &ScoreTargets,
    ) -> PredictionSpec {
        PredictionSpec {
            vocabulary: self.vocabulary.clone(),
            converter: self.feature_converter(),
            of_answers: None,
            names_classes: false,
            max_inputs: None,
            begins_inputs: false,
            continues_inputs: true,
            joins_inputs: self.inputs_bidirectional_attention,
            decode_fn: self.decode_fn.0.clone(),
            num_decodes: decodes.num_decodes,
            bos_id: 0,
            eos_id: None,
            prompt_with_targets: false,
            answers: decodes.answers.clone(),
            returns_all_decodes: decodes.return_all_decodes,
            returns_intermediates: score_batch.return_intermediates,
        }
    }
}

impl BaseModel for DecoderOnlyModel {
    of_shared!();

    fn loss_spec(&self) -> LossSpec {
        self.shared.loss.spec(None)
    }

    fn predicts(&self) -> Option<PredictionSpec> {
        Some(self.shared.predictions(&self.predict_batch_with_aux.decodes, &self.score_batch))
    }
}

impl BaseModel for MoeDecoderOnlyModel {
    of_shared!();

    fn loss_spec(&self) -> LossSpec {
        self.shared.loss.spec(Some(&self.routing))
    }

    fn check_own(&self) -> Result<(), String> {
        check_experts(&self.transformer(), self.name())
    }

    fn predicts(&self) -> Option<PredictionSpec> {
        Some(self.shared.predictions(&self.predict_batch_with_aux.decodes, &self.score_batch))
    }
}
