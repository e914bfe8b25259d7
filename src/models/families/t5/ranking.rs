//! The network of models that rank answers.

use std::cell::OnceCell;

use tch::Tensor;

use super::answers::{CrossEntropyEncoderDecoderModel, PerceptronLossEncoderDecoderModel};
use super::model::T5;
use super::predict::Predictor;
use crate::models::decoding::{DecodeError, Decodes, Observer, Prediction};
use crate::models::families::predicts_targets::PredictsTargets;
use crate::models::heads::{AnswerLoss, Answers, Divisors, LossOutput, LossSpec, ScoredTokens};
use crate::models::{BaseModel, Batch, HasNetwork, Network, Predict, PredictingNetwork, feature};
use crate::nn::{Dropout, Params, TransformerEngineConfig, untracked};

/// A T5 that ranks the answers of an example. Batches without [`feature::IS_CORRECT`] have texts to predict or to score.
#[derive(Clone, Debug)]
pub struct RankingT5 {
    t5: T5,
    answers: Answers,
}

impl RankingT5 {
    /// The answers of a batch as rows; `None` if it has texts.
    fn rows(batch: &Batch) -> Option<Batch> {
        batch.get(feature::IS_CORRECT).map(|_| Answers::rows(batch))
    }

    /// The scores of all answers: float32 `[batch, answers]`.
    fn scores(&self, params: &Params, batch: &Batch) -> Tensor {
        let rows = Answers::rows(batch);
        let (head, _) = self.t5.head(params, &rows, Dropout::off());
        self.answers.scores(&head, &rows, batch.length(feature::IS_CORRECT))
    }
}

impl Network for RankingT5 {
    fn dropout(&self) -> Dropout {
        self.t5.dropout()
    }

    fn features(&self) -> &'static [&'static str] {
        Answers::FEATURES
    }

    fn loss(
        &self,
        params: &Params,
        batch: &Batch,
        spec: &LossSpec,
        dropout: Dropout,
    ) -> LossOutput {
        let rows = Answers::rows(batch);
        let (head, _) = self.t5.head(params, &rows, dropout);
        let is_correct = batch.tensor(feature::IS_CORRECT);
        LossOutput::new(&rows, [self.answers.loss(&head, &rows, is_correct, spec)])
    }

    fn divisors(&self, _: &Batch, _: &LossSpec) -> Divisors {
        Divisors::new()
    }

    fn predicting(&self) -> Option<&dyn PredictingNetwork> {
        Some(self)
    }
}

impl PredictingNetwork for RankingT5 {
    fn token_scores(&self, params: &Params, batch: &Batch) -> Tensor {
        let scores = self.t5.token_scores(params, Self::rows(batch).as_ref().unwrap_or(batch));
        scores.reshape([batch.num_rows(), -1])
    }

    fn scored_targets(&self, params: &Params, batch: &Batch, count: i64) -> ScoredTokens {
        self.t5.scored_targets(params, Self::rows(batch).as_ref().unwrap_or(batch), count)
    }

    fn predictor<'a>(&'a self, params: &'a Params, hypotheses: usize) -> Box<dyn Predict + 'a> {
        Box::new(AnswerPredictor { network: self, params, hypotheses, decodes: OnceCell::new() })
    }
}

/// Predicts the likeliest answers, and decodes texts.
struct AnswerPredictor<'a> {
    network: &'a RankingT5,
    params: &'a Params,
    hypotheses: usize,
    decodes: OnceCell<Predictor<'a>>, // for texts alone
}

impl AnswerPredictor<'_> {
    fn decodes(&self) -> &dyn Predict {
        let Self { network, params, hypotheses, .. } = self;
        self.decodes.get_or_init(|| Predictor::new(&network.t5, params, *hypotheses))
    }
}

impl Predict for AnswerPredictor<'_> {
    fn prefill(&self, batch: &Batch) {
        match batch.get(feature::IS_CORRECT) {
            None => self.decodes().prefill(batch),
            Some(_) => {
                let _ = untracked(|| self.network.scores(self.params, batch));
            }
        }
    }

    fn predict_observed(
        &self,
        batch: &Batch,
        prediction: &Prediction,
        observer: &mut dyn Observer,
    ) -> Result<Decodes, DecodeError> {
        if batch.get(feature::IS_CORRECT).is_none() {
            return self.decodes().predict_observed(batch, prediction, observer);
        }
        untracked(|| {
            let scores = self.network.scores(self.params, batch);
            let (best, places) = scores.max_dim(-1, true);
            let targets = batch.tensor(feature::DECODER_TARGET_TOKENS);
            let targets = targets.view([scores.size()[0], scores.size()[1], -1]);
            let places = places.unsqueeze(-1).expand([-1, 1, targets.size()[2]], false);
            Ok(Decodes { sequences: targets.gather(1, &places, false), scores: best })
        })
    }
}

impl HasNetwork for CrossEntropyEncoderDecoderModel {
    fn network(&self, fp8: Option<&TransformerEngineConfig>) -> Box<dyn Network> {
        let length_normalize = self.ranking.length_normalize;
        Box::new(RankingT5 {
            t5: T5::new(self.transformer().with_fp8(fp8)),
            answers: Answers { length_normalize, loss: AnswerLoss::CrossEntropy },
        })
    }
}

impl HasNetwork for PerceptronLossEncoderDecoderModel {
    fn network(&self, fp8: Option<&TransformerEngineConfig>) -> Box<dyn Network> {
        let (length_normalize, hinge) = (self.ranking.length_normalize, self.hinge);
        Box::new(RankingT5 {
            t5: T5::new(self.transformer().with_fp8(fp8)),
            answers: Answers { length_normalize, loss: AnswerLoss::Perceptron { hinge } },
        })
    }
}
