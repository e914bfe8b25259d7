//! T5s that are trained to rank the answers of an example. Source: prompt-tuning `extended/perceptron/train/models.py`.

use super::encoder_decoder::{EncoderDecoderParameters, PredictBatchWithAux, ScoreBatch};
use crate::data::{
    ConverterClass, DataError, Lengths, ValidLabelOnlyEncDecFeatureConverter, feature_length,
};
use crate::gin::{Configurable, Parameters};
use crate::models::contract::memory::StepShape;
use crate::models::contract::{BaseModel, ModuleSpec, PredictionSpec};
use crate::models::families::parameters::of_shared;
use crate::models::heads::LossSpec;
use crate::optim::OptimizerDef;
use crate::vocab::VocabularySpec;

/// Parameters of every model that ranks answers. The score of an answer is the log-likelihood of its tokens. `loss_normalizing_factor` has
/// no effect: the loss is a sum over examples.
#[derive(Clone, Debug, PartialEq, Parameters)]
pub struct RankingParameters {
    /// Whether scores are means over tokens instead of sums.
    pub length_normalize: bool,
    /// Parameters of every model of inputs and targets.
    #[gin(flatten)]
    pub shared: EncoderDecoderParameters,
}

/// An encoder-decoder model whose loss is the cross entropy of an example's answers, with their scores as logits. It reads the features of
/// `feature_converters.ValidLabelOnlyEncDecFeatureConverter`, and predicts the answer with the greatest score; commands that are given
/// texts decode. Source: prompt-tuning `extended/perceptron/train/models.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "prompt_tuning.extended.perceptron.train.models.CrossEntropyEncoderDecoderModel")]
pub struct CrossEntropyEncoderDecoderModel {
    /// Parameters of every model that ranks answers.
    #[gin(flatten)]
    pub ranking: RankingParameters,
    /// Parameters of decoding a batch.
    #[gin(method)]
    pub predict_batch_with_aux: PredictBatchWithAux,
    /// Parameters of scoring a batch.
    #[gin(method)]
    pub score_batch: ScoreBatch,
}

/// As `CrossEntropyEncoderDecoderModel`, with the loss of a perceptron: the greatest score of an example's answers minus that of the right
/// one, plus a margin, and at least 0. `label_smoothing` and `z_loss` have no effect. Source: prompt-tuning
/// `extended/perceptron/train/models.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "prompt_tuning.extended.perceptron.train.models.PerceptronLossEncoderDecoderModel")]
pub struct PerceptronLossEncoderDecoderModel {
    /// The margin.
    #[gin(limit = NonNegative)]
    pub hinge: f64,
    /// Parameters of every model that ranks answers.
    #[gin(flatten)]
    pub ranking: RankingParameters,
    /// Parameters of decoding a batch.
    #[gin(method)]
    pub predict_batch_with_aux: PredictBatchWithAux,
    /// Parameters of scoring a batch.
    #[gin(method)]
    pub score_batch: ScoreBatch,
}

impl RankingParameters {
    fn feature_converter(&self) -> ConverterClass {
        ValidLabelOnlyEncDecFeatureConverter {}.into()
    }

    /// The shape of the rows of all answers.
    fn step_shape(&self, rows: usize, lengths: &Lengths) -> Result<StepShape, DataError> {
        self.shared.step_shape(rows * feature_length("is_correct", lengths)?, lengths)
    }

    fn check(&self, name: &str) -> Result<(), String> {
        match &self.shared.feature_converter_cls {
            None => Ok(()),
            Some(_) => Err(format!(
                "{name}.feature_converter_cls is given, expected None: the model reads all answers of an example, as \
                 feature_converters.ValidLabelOnlyEncDecFeatureConverter makes them"
            )),
        }
    }

    fn predictions(&self, own: &PredictBatchWithAux, score_batch: &ScoreBatch) -> PredictionSpec {
        PredictionSpec {
            of_answers: Some(self.feature_converter()),
            num_decodes: own.num_decodes.unwrap_or(1),
            prompt_with_targets: own.prompt_with_targets,
            answers: own.answers.clone(),
            returns_all_decodes: own.return_all_decodes.unwrap_or(false),
            ..self.shared.predictions(score_batch)
        }
    }
}

/// Implements the parts of the contract that do not depend on the loss.
macro_rules! of_ranking {
    () => {
        of_shared!(ranking.shared);

        fn feature_converter(&self) -> ConverterClass {
            self.ranking.feature_converter()
        }

        fn step_shape(&self, rows: usize, lengths: &Lengths) -> Result<StepShape, DataError> {
            self.ranking.step_shape(rows, lengths)
        }

        fn check_own(&self) -> Result<(), String> {
            self.ranking.check(self.name())
        }

        fn predicts(&self) -> Option<PredictionSpec> {
            Some(self.ranking.predictions(&self.predict_batch_with_aux, &self.score_batch))
        }
    };
}

impl BaseModel for CrossEntropyEncoderDecoderModel {
    of_ranking!();

    fn loss_spec(&self) -> LossSpec {
        LossSpec { loss_normalizing_factor: None, ..self.ranking.shared.loss.spec(None) }
    }
}

impl BaseModel for PerceptronLossEncoderDecoderModel {
    of_ranking!();

    fn loss_spec(&self) -> LossSpec {
        LossSpec::default()
    }
}
