//! An encoder with a head of classes behind the interface of networks.

use std::ops::ControlFlow;

use tch::{Kind, Tensor};

use super::model::{BertForSequenceClassification, T5EncoderForSequenceClassification};
use crate::models::bert::Bert;
use crate::models::decoding::{DecodeError, Decodes, Observer, Prediction};
use crate::models::heads::{Divisors, Head, LossOutput, LossSpec, ScoredTokens, TokenLogits};
use crate::models::parts::ClassHead;
use crate::models::t5::T5;
use crate::models::{BaseModel, Batch, HasNetwork, Network, Predict, PredictingNetwork, feature};
use crate::nn::{Dropout, Params, TransformerEngineConfig, untracked};

/// The number of the first class among the tokens of targets; 0 is no class.
const FIRST_CLASS: i64 = 1;

/// An encoder, and the head that reads it.
#[derive(Clone, Debug)]
struct Classifier {
    encoder: Encoder,
    head: ClassHead,
}

#[derive(Clone, Debug)]
enum Encoder {
    Bert(Bert),
    T5(T5),
}

impl Classifier {
    /// The logits of the classes of rows, to be computed.
    fn logits(&self, params: &Params, batch: &Batch, dropout: Dropout) -> Head {
        let tokens = batch.tensor(feature::ENCODER_INPUT_TOKENS);
        let hidden = match &self.encoder {
            Encoder::Bert(bert) => bert.encode(params, batch, dropout),
            Encoder::T5(t5) => {
                params.division().axes.model.repeated(&t5.encode(params, batch, dropout))
            }
        };
        self.head.head(params, &hidden, tokens, dropout)
    }
}

/// The batch with classes from 0 on in place of their tokens. Those of rows without one have no weight.
fn numbered(batch: &Batch) -> Batch {
    let tokens = batch.tensor(feature::DECODER_TARGET_TOKENS);
    let classes = (tokens - FIRST_CLASS).clamp_min(0);
    batch.rows(0, batch.num_rows()).with(feature::DECODER_TARGET_TOKENS, classes)
}

impl Network for Classifier {
    fn dropout(&self) -> Dropout {
        match &self.encoder {
            Encoder::Bert(bert) => bert.dropout(),
            Encoder::T5(t5) => t5.dropout(),
        }
    }

    fn features(&self) -> &'static [&'static str] {
        &[
            feature::ENCODER_INPUT_TOKENS,
            feature::DECODER_TARGET_TOKENS,
            feature::DECODER_LOSS_WEIGHTS,
        ]
    }

    fn loss(
        &self,
        params: &Params,
        batch: &Batch,
        spec: &LossSpec,
        dropout: Dropout,
    ) -> LossOutput {
        let head = self.logits(params, batch, dropout);
        LossOutput::new(batch, [TokenLogits::TARGETS.loss(&head, &numbered(batch), spec)])
    }

    fn divisors(&self, batch: &Batch, spec: &LossSpec) -> Divisors {
        TokenLogits::TARGETS.divisors(batch, spec)
    }

    fn predicting(&self) -> Option<&dyn PredictingNetwork> {
        Some(self)
    }
}

impl PredictingNetwork for Classifier {
    fn token_scores(&self, params: &Params, batch: &Batch) -> Tensor {
        tch::no_grad(|| {
            let head = self.logits(params, batch, Dropout::off());
            TokenLogits::TARGETS.scores(&head, &numbered(batch))
        })
    }

    fn scored_targets(&self, params: &Params, batch: &Batch, count: i64) -> ScoredTokens {
        tch::no_grad(|| {
            let head = self.logits(params, batch, Dropout::off());
            TokenLogits::TARGETS.scored(&head, &numbered(batch), count)
        })
    }

    fn predictor<'a>(&'a self, params: &'a Params, _: usize) -> Box<dyn Predict + 'a> {
        Box::new(ClassPredictor { classifier: self, params })
    }
}

/// Names the likeliest classes of rows.
struct ClassPredictor<'a> {
    classifier: &'a Classifier,
    params: &'a Params,
}

impl Predict for ClassPredictor<'_> {
    fn prefill(&self, batch: &Batch) {
        let _ = untracked(|| self.classifier.logits(self.params, batch, Dropout::off()).logits());
    }

    /// The likeliest classes, with the logarithms of their probabilities as scores. Nothing is decoded, so no option of
    /// decoding but their number has a meaning; `interactive` refuses others.
    fn predict_observed(
        &self,
        batch: &Batch,
        prediction: &Prediction,
        observer: &mut dyn Observer,
    ) -> Result<Decodes, DecodeError> {
        untracked(|| {
            let logits = self.classifier.logits(self.params, batch, Dropout::off()).logits();
            let most = prediction.num_decodes.min(self.classifier.head.num_classes) as i64;
            let likelihoods = logits.log_softmax(-1, Kind::Float);
            let (scores, classes) = likelihoods.topk(most, -1, true, true);
            let tokens = (classes.flip([1]) + FIRST_CLASS).unsqueeze(-1);
            if most == 1 {
                let _: ControlFlow<()> = observer.observe(Some(&tokens.squeeze_dim(-1)));
            }
            let length = batch.length(feature::DECODER_TARGET_TOKENS);
            Ok(Decodes {
                sequences: tokens.constant_pad_nd([0, length - 1]),
                scores: scores.flip([1]),
            })
        })
    }
}

impl HasNetwork for BertForSequenceClassification {
    fn network(&self, fp8: Option<&TransformerEngineConfig>) -> Box<dyn Network> {
        let spec = self.transformer().with_fp8(fp8);
        let head = spec.class_head.expect("it has classes");
        Box::new(Classifier { encoder: Encoder::Bert(Bert::new(spec)), head })
    }
}

impl HasNetwork for T5EncoderForSequenceClassification {
    fn network(&self, fp8: Option<&TransformerEngineConfig>) -> Box<dyn Network> {
        let spec = self.transformer().with_fp8(fp8);
        let head = spec.class_head.expect("it has classes");
        Box::new(Classifier { encoder: Encoder::T5(T5::new(spec)), head })
    }
}
