//! Networks whose one head predicts a decoder's targets.

use std::fmt::Debug;

use tch::Tensor;

use crate::models::heads::{Divisors, Head, LossOutput, LossSpec, ScoredTokens, TokenLogits};
use crate::models::{Batch, Network, Predict, PredictingNetwork};
use crate::nn::{Dropout, Params, RoutingReport};

/// Such a network: the rest of what training and predicting ask follows from the logits.
pub trait PredictsTargets: Debug {
    /// Names of the features that it reads.
    const FEATURES: &'static [&'static str];

    /// Probability that an activation is dropped in training.
    fn dropout_rate(&self) -> f64;

    /// The logits of `batch`, to be computed, and the reports of routers on the way to them.
    fn head(&self, params: &Params, batch: &Batch, dropout: Dropout) -> (Head, Vec<RoutingReport>);

    /// Lays weights out for decoding batches of about so many hypotheses.
    fn new_predictor<'a>(&'a self, params: &'a Params, hypotheses: usize) -> Box<dyn Predict + 'a>;
}

impl<N: PredictsTargets> Network for N {
    fn dropout(&self) -> Dropout {
        Dropout::train(self.dropout_rate())
    }

    fn features(&self) -> &'static [&'static str] {
        N::FEATURES
    }

    fn loss(
        &self,
        params: &Params,
        batch: &Batch,
        spec: &LossSpec,
        dropout: Dropout,
    ) -> LossOutput {
        let (head, reports) = self.head(params, batch, dropout);
        let of_routers = spec.routing.and_then(|losses| losses.of(&reports));
        let of_targets = TokenLogits::TARGETS.loss(&head, batch, spec);
        LossOutput::new(batch, [of_targets].into_iter().chain(of_routers))
    }

    fn divisors(&self, batch: &Batch, spec: &LossSpec) -> Divisors {
        TokenLogits::TARGETS.divisors(batch, spec)
    }

    fn predicting(&self) -> Option<&dyn PredictingNetwork> {
        Some(self)
    }
}

impl<N: PredictsTargets> PredictingNetwork for N {
    fn token_scores(&self, params: &Params, batch: &Batch) -> Tensor {
        tch::no_grad(|| {
            let (head, _) = self.head(params, batch, Dropout::off());
            TokenLogits::TARGETS.scores(&head, batch)
        })
    }

    fn scored_targets(&self, params: &Params, batch: &Batch, count: i64) -> ScoredTokens {
        tch::no_grad(|| {
            let (head, _) = self.head(params, batch, Dropout::off());
            TokenLogits::TARGETS.scored(&head, batch, count)
        })
    }

    fn predictor<'a>(&'a self, params: &'a Params, hypotheses: usize) -> Box<dyn Predict + 'a> {
        self.new_predictor(params, hypotheses)
    }
}
