//! Models that read inputs and write targets, with experts or without.

use super::module::Module;
use crate::data::{
    ConverterClass, DataError, EncDecFeatureConverter, Lengths, PrePackedEncDecFeatureConverter,
    feature_length,
};
use crate::gin::{Configurable, Parameters, Ref};
use crate::models::contract::memory::StepShape;
use crate::models::contract::{BaseModel, ModuleSpec, PredictionSpec};
use crate::models::decoding::{AnswerSetParameters, DecodeFn};
use crate::models::families::parameters::{
    LossParameters, RoutingLossFactors, check_experts, of_shared,
};
use crate::models::flaxformer::TrainPrompt;
use crate::models::heads::LossSpec;
use crate::models::parts::{LearnedRows, LoRA, StreamDims};
use crate::optim::OptimizerDef;
use crate::vocab::VocabularySpec;

/// Any feature converter of an encoder-decoder model.
#[derive(Clone, Debug, PartialEq, Configurable)]
pub enum EncDecConverter {
    /// A converter for inputs and targets.
    EncDec(EncDecFeatureConverter),
    /// A converter for rows that are packed already.
    PrePacked(PrePackedEncDecFeatureConverter),
}

impl From<EncDecConverter> for ConverterClass {
    fn from(converter: EncDecConverter) -> Self {
        match converter {
            EncDecConverter::EncDec(spec) => spec.into(),
            EncDecConverter::PrePacked(spec) => spec.into(),
        }
    }
}

/// Parameters of every model of inputs and targets. Source: T5X `models.py`.
#[derive(Clone, Debug, PartialEq, Parameters)]
pub struct EncoderDecoderParameters {
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
    /// Parameters of the loss.
    #[gin(flatten)]
    pub loss: LossParameters,
    /// Additions of low rank to the network's kernels; None has none.
    #[gin(default = None)]
    pub lora: Option<LoRA>,
    /// Converts a task's features into the model's inputs; None is `seqio.EncDecFeatureConverter`.
    #[gin(default = None)]
    pub feature_converter_cls: Option<Ref<EncDecConverter>>,
}

/// A network and everything that training and decoding need besides. Source: T5X `models.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "t5x.models.EncoderDecoderModel")]
pub struct EncoderDecoderModel {
    /// Parameters of every such model.
    #[gin(flatten)]
    pub shared: EncoderDecoderParameters,
    /// A soft prompt among the tokens of a network that has no prompt itself; None has none. Source: prompt-tuning `train/prompts.py`.
    #[gin(default = None)]
    pub prompt: Option<TrainPrompt>,
    /// The id that the decoder reads before a sequence, which T5X fixes to that of padding (transformers:
    /// `decoder_start_token_id`).
    #[gin(default = 0)]
    pub bos_id: i32,
    /// The id that ends a decoded sequence (transformers: `eos_token_id`); None is the output vocabulary's end token.
    #[gin(default = None)]
    pub eos_id: Option<i32>,
    /// Defaults for parameters of `predict_batch_with_aux` that are not bound.
    #[gin(default = None)]
    pub default_decoder_params: Option<DecoderParams>,
    /// Parameters of decoding a batch.
    #[gin(method)]
    pub predict_batch_with_aux: PredictBatchWithAux,
    /// Parameters of scoring a batch.
    #[gin(method)]
    pub score_batch: ScoreBatch,
}

/// Defaults of decoding. Source: T5X `models.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "t5x.models.DecoderParams")]
pub struct DecoderParams {
    /// Whether all sequences are returned instead of the best.
    #[gin(default = false)]
    pub return_all_decodes: bool,
    /// Beams, or samples, per input.
    #[gin(default = 1)]
    pub num_decodes: usize,
}

/// Options of decoding a batch. Source: T5X `models.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(
    name = "t5x.models.EncoderDecoderModel.predict_batch_with_aux",
    ignored(
        params = "the run gives it",
        batch = "the run gives it",
        rng = "the run gives it",
        decoder_params = "bind the decoding function's own parameters"
    )
)]
pub struct PredictBatchWithAux {
    /// Whether all sequences are returned instead of the best.
    #[gin(default = None)]
    pub return_all_decodes: Option<bool>,
    /// Beams, or samples, per input.
    #[gin(default = None)]
    pub num_decodes: Option<usize>,
    /// Whether sequences begin with the targets, for completing them.
    #[gin(default = false)]
    pub prompt_with_targets: bool,
    /// The answers that are possible.
    #[gin(flatten)]
    pub answers: AnswerSetParameters,
}

/// Options of scoring a batch. Source: T5X `models.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(
    name = "t5x.models.EncoderDecoderModel.score_batch",
    ignored(params = "the run gives it", batch = "the run gives it")
)]
pub struct ScoreBatch {
    /// Whether `gimlet infer` writes the score, id and weight of each target beside the score of all.
    #[gin(default = false)]
    pub return_intermediates: bool,
}

/// An encoder-decoder model with experts: `EncoderDecoderModel` with the losses of routers. Source: T5X
/// `contrib/moe/models.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "t5x.contrib.moe.models.MoeEncoderDecoderModel")]
pub struct MoeEncoderDecoderModel {
    /// Parameters of the model without experts.
    #[gin(flatten)]
    pub shared: EncoderDecoderParameters,
    /// Weights of the losses of routers.
    #[gin(flatten)]
    pub routing: RoutingLossFactors,
    /// Parameters of decoding a batch.
    #[gin(method)]
    pub predict_batch_with_aux: PredictWithExperts,
    /// Parameters of scoring a batch.
    #[gin(method)]
    pub score_batch: ScoreBatch,
}

/// Options of decoding a batch by a model with experts. Source: T5X `contrib/moe/models.py`.
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
    /// The answers that are possible.
    #[gin(flatten)]
    pub answers: AnswerSetParameters,
}

impl EncoderDecoderParameters {
    pub(super) fn vocabularies(&self) -> Vec<(&'static str, &VocabularySpec)> {
        vec![("inputs", &self.input_vocabulary), ("targets", &self.output_vocabulary)]
    }

    pub(super) fn feature_converter(&self) -> ConverterClass {
        let class = self.feature_converter_cls.as_ref();
        class.map_or_else(ConverterClass::default, |class| class.0.clone().into())
    }

    pub(super) fn step_shape(
        &self,
        rows: usize,
        lengths: &Lengths,
    ) -> Result<StepShape, DataError> {
        let lengths = [feature_length("inputs", lengths)?, feature_length("targets", lengths)?];
        Ok(StepShape::whole(rows, lengths))
    }

    /// The predictions of a model with defaults for all that it may set itself.
    pub(super) fn predictions(&self, score_batch: &ScoreBatch) -> PredictionSpec {
        PredictionSpec {
            vocabulary: self.output_vocabulary.clone(),
            converter: EncDecFeatureConverter {}.into(),
            of_answers: None,
            names_classes: false,
            max_inputs: None,
            begins_inputs: false,
            continues_inputs: false,
            joins_inputs: false,
            decode_fn: self.decode_fn.0.clone(),
            num_decodes: 1,
            bos_id: 0,
            eos_id: None,
            prompt_with_targets: false,
            answers: AnswerSetParameters::default(),
            returns_all_decodes: false,
            returns_intermediates: score_batch.return_intermediates,
        }
    }
}

impl BaseModel for EncoderDecoderModel {
    of_shared!();

    fn loss_spec(&self) -> LossSpec {
        self.shared.loss.spec(None)
    }

    fn learned_rows(&self, stream: StreamDims) -> Option<LearnedRows> {
        self.prompt.as_ref().map(|prompt| prompt.rows(stream))
    }

    fn check_own(&self) -> Result<(), String> {
        self.prompt.as_ref().map_or(Ok(()), TrainPrompt::check)?;
        let own = self.shared.module.transformer();
        match (&self.prompt, &own.learned_rows, &own.encoder) {
            (None, _, _) | (Some(_), None, Some(_)) => {}
            (Some(_), None, None) => {
                return Err(format!(
                    "{}.prompt needs an encoder, and the network has none",
                    self.name()
                ));
            }
            (Some(_), Some(rows), _) => {
                return Err(format!(
                    "{}.prompt is given, and the network has {} learned rows already ({}), expected one of the two",
                    self.name(),
                    rows.count,
                    self.dimensions().parameter(rows.dimension())
                ));
            }
        }
        if let Some(Ref(EncDecConverter::PrePacked(_))) = self.shared.feature_converter_cls {
            let setting = "models.EncoderDecoderModel.feature_converter_cls of packed rows";
            let remedy = "feature_converter_cls = None";
            self.transformer().check_packing(self.dimensions(), (setting, remedy))?;
        }
        let num_ids = self.num_ids();
        for (name, id) in [("bos_id", Some(self.bos_id)), ("eos_id", self.eos_id)] {
            if let Some(id) = id.filter(|id| !usize::try_from(*id).is_ok_and(|id| id < num_ids)) {
                return Err(format!(
                    "{}.{name} is {id}, expected an id of the embedding, which has {num_ids} rows",
                    self.name()
                ));
            }
        }
        Ok(())
    }

    fn predicts(&self) -> Option<PredictionSpec> {
        let (own, default) = (&self.predict_batch_with_aux, self.default_decoder_params.as_ref());
        let num_decodes = own.num_decodes.or(default.map(|params| params.num_decodes));
        let all = own.return_all_decodes.or(default.map(|params| params.return_all_decodes));
        Some(PredictionSpec {
            num_decodes: num_decodes.unwrap_or(1),
            bos_id: self.bos_id,
            eos_id: self.eos_id,
            prompt_with_targets: own.prompt_with_targets,
            answers: own.answers.clone(),
            returns_all_decodes: all.unwrap_or(false),
            ..self.shared.predictions(&self.score_batch)
        })
    }
}

impl BaseModel for MoeEncoderDecoderModel {
    of_shared!();

    fn loss_spec(&self) -> LossSpec {
        self.shared.loss.spec(Some(&self.routing))
    }

    fn check_own(&self) -> Result<(), String> {
        check_experts(&self.transformer(), self.name())
    }

    fn predicts(&self) -> Option<PredictionSpec> {
        let own = &self.predict_batch_with_aux;
        Some(PredictionSpec {
            num_decodes: own.num_decodes,
            prompt_with_targets: own.prompt_with_targets,
            answers: own.answers.clone(),
            returns_all_decodes: own.return_all_decodes,
            ..self.shared.predictions(&self.score_batch)
        })
    }
}
