//! A decoder behind the interface of networks.

use tch::Tensor;

use super::model::{DecoderOnlyModel, DecoderOnlyParameters, MoeDecoderOnlyModel};
use super::predict::Predictor;
use crate::models::families::predicts_targets::PredictsTargets;
use crate::models::heads::Head;
use crate::models::transformer::{Passed, Stack, StackInput, TransformerSpec, Visible};
use crate::models::{BaseModel, Batch, HasNetwork, Network, Predict, feature};
use crate::nn::{
    Dropout, Params, RoutingReport, Runs, TransformerEngineConfig, causal_mask, decoder_positions,
    pairs, same_segment,
};

/// A decoder alone. It holds no weights: every method gets them as `Params`.
#[derive(Clone, Debug)]
pub struct DecoderOnly {
    pub(super) spec: TransformerSpec,
    /// Whether all positions of a prefix attend to each other.
    pub(super) inputs_bidirectional_attention: bool,
}

impl DecoderOnly {
    /// The decoder of that description.
    pub fn new(spec: TransformerSpec, inputs_bidirectional_attention: bool) -> Self {
        Self { spec, inputs_bidirectional_attention }
    }

    /// Pairs that may attend: bool `[batch, 1, length, length]`, of one row if all rows are alike.
    fn mask(&self, batch: &Batch) -> Tensor {
        let targets = batch.tensor(feature::DECODER_TARGET_TOKENS);
        let allowed = match self.inputs_bidirectional_attention {
            true => prefix_mask(batch.tensor(feature::DECODER_CAUSAL_ATTENTION)),
            false => causal_mask(targets.size()[1], targets.device()),
        };
        let runs = batch.facts().and_then(|facts| facts.targets.as_ref());
        if runs.is_some_and(Runs::are_whole_rows) {
            return allowed;
        }
        // Targets, not the decoder's inputs, because those begin with 0.
        let real = targets.gt(0);
        let mask = pairs(&real, &real).logical_and(&allowed);
        match batch.get(feature::DECODER_SEGMENT_IDS) {
            Some(ids) => mask.logical_and(&same_segment(ids, ids)),
            None => mask,
        }
    }

    /// The same as runs, unless a prefix is seen by all of itself.
    fn runs(&self, batch: &Batch) -> Option<Runs> {
        let facts = batch.facts().filter(|_| !self.inputs_bidirectional_attention);
        facts.and_then(|facts| facts.targets.clone())
    }
}

impl PredictsTargets for DecoderOnly {
    const FEATURES: &'static [&'static str] = &[
        feature::DECODER_INPUT_TOKENS,
        feature::DECODER_TARGET_TOKENS,
        feature::DECODER_LOSS_WEIGHTS,
        feature::DECODER_CAUSAL_ATTENTION,
        feature::DECODER_SEGMENT_IDS,
    ];

    fn dropout_rate(&self) -> f64 {
        self.spec.dropout_rate
    }

    fn head(&self, params: &Params, batch: &Batch, dropout: Dropout) -> (Head, Vec<RoutingReport>) {
        let params = &self.spec.begin(params);
        let tokens = batch.tensor(feature::DECODER_INPUT_TOKENS);
        let input = StackInput {
            embedded: self.spec.tokens.embed(params, tokens),
            visible: &Visible::Pairs { mask: self.mask(batch), runs: self.runs(batch) },
            real: self.spec.last.sparse.is_some().then(|| decoder_positions(tokens)),
        };
        let Passed { hidden, routing } =
            Stack::new(&self.spec.last, params).forward(input, None, dropout);
        (self.spec.tokens.head(params, &hidden), routing)
    }

    fn new_predictor<'a>(&'a self, params: &'a Params, hypotheses: usize) -> Box<dyn Predict + 'a> {
        Box::new(Predictor::new(self, params, hypotheses))
    }
}

/// Pairs whose key is not after the query, or that are both of a prefix, which `prefix` marks by 1,
/// int64 `[batch, length]`: bool `[batch, 1, length, length]`. T5X `layers.py`, `make_decoder_mask`.
pub(super) fn prefix_mask(prefix: &Tensor) -> Tensor {
    let inside = prefix.gt(0);
    pairs(&inside, &inside).logical_or(&causal_mask(prefix.size()[1], prefix.device()))
}

impl DecoderOnlyParameters {
    fn network(&self, spec: TransformerSpec) -> Box<dyn Network> {
        Box::new(DecoderOnly::new(spec, self.inputs_bidirectional_attention))
    }
}

impl HasNetwork for DecoderOnlyModel {
    fn network(&self, fp8: Option<&TransformerEngineConfig>) -> Box<dyn Network> {
        self.shared.network(self.transformer().with_fp8(fp8))
    }
}

impl HasNetwork for MoeDecoderOnlyModel {
    fn network(&self, fp8: Option<&TransformerEngineConfig>) -> Box<dyn Network> {
        self.shared.network(self.transformer().with_fp8(fp8))
    }
}
