//! Models that read inputs and write targets.

use super::base_model::BaseModel;
use super::decoding::{DecodeFn, Prediction};
use super::loss::{LossNormalizingFactor, LossSpec};
use super::memory::StepShape;
use super::spec::Module;
use crate::data::{
    ConverterClass, DataError, EncDecFeatureConverter, Lengths, PrePackedEncDecFeatureConverter,
    feature_length,
};
use crate::gin::{Configurable, Parameters, Ref};
use crate::models::transformer::{DimensionNames, TransformerSpec};
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

impl BaseModel for EncoderDecoderModel {
    fn check(&self) -> Result<(), String> {
        self.shared.module.check()?;
        let num_ids = self.transformer().vocab_size;
        for (name, id) in [("bos_id", Some(self.bos_id)), ("eos_id", self.eos_id)] {
            if let Some(id) = id.filter(|id| !usize::try_from(*id).is_ok_and(|id| id < num_ids)) {
                return Err(format!(
                    "models.EncoderDecoderModel.{name} is {id}, expected an id of the embedding, which has {num_ids} rows"
                ));
            }
        }
        self.transformer().check(self.dimensions())
    }

    fn check_training(&self) -> Result<(), String> {
        self.loss_spec().check("models.EncoderDecoderModel")?;
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
        vec![("inputs", &self.shared.input_vocabulary), ("targets", &self.shared.output_vocabulary)]
    }

    fn output_vocabulary(&self) -> &VocabularySpec {
        &self.shared.output_vocabulary
    }

    fn feature_converter(&self) -> ConverterClass {
        let class = self.shared.feature_converter_cls.as_ref();
        class.map_or_else(ConverterClass::default, |class| class.0.clone().into())
    }

    fn bos_id(&self) -> i32 {
        self.bos_id
    }

    fn prediction_converter(&self) -> ConverterClass {
        EncDecFeatureConverter {}.into()
    }

    fn step_shape(&self, rows: usize, lengths: &Lengths) -> Result<StepShape, DataError> {
        let inputs_length = feature_length("inputs", lengths)?;
        Ok(StepShape {
            rows,
            inputs_length,
            targets_length: feature_length("targets", lengths)?,
            parts: 1,
        })
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
        let own = &self.predict_batch_with_aux;
        let default = self.default_decoder_params.as_ref().map_or(1, |params| params.num_decodes);
        Prediction {
            num_decodes: self.shared.decode_fn.0.num_decodes(own.num_decodes.unwrap_or(default)),
            decode_fn: self.shared.decode_fn.0.clone(),
            bos_id: i64::from(self.bos_id),
            eos_id: self.eos_id.map_or(eos_id, i64::from),
            prompt_with_targets: own.prompt_with_targets,
        }
    }

    fn returns_all_decodes(&self) -> bool {
        let default = self.default_decoder_params.as_ref();
        let default = default.is_some_and(|params| params.return_all_decodes);
        self.predict_batch_with_aux.return_all_decodes.unwrap_or(default)
    }

    fn returns_intermediates(&self) -> bool {
        self.score_batch.return_intermediates
    }

    fn transformer(&self) -> TransformerSpec {
        self.shared.module.transformer()
    }
}
