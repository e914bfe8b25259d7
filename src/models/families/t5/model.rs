//! The whole network: embeddings, both stacks and logits.

use std::sync::Arc;

use tch::{Kind, Tensor};

use super::predict::Predictor;
use crate::models::families::predicts_targets::PredictsTargets;
use crate::models::heads::Head;
use crate::models::parts::Reach;
use crate::models::transformer::{
    Encoding, Stack, StackInput, StackSpec, TransformerSpec, Visible,
};
use crate::models::{Batch, Predict, RowFacts, feature};
use crate::nn::{
    Dropout, Lookahead, Params, RoutingReport, causal_mask, decoder_positions, pairs, same_segment,
};

/// A T5. It holds no weights: every method gets them as `Params`.
#[derive(Clone, Debug)]
pub struct T5 {
    pub(super) spec: TransformerSpec,
}

impl T5 {
    /// The T5 of that description, which has an encoder, perhaps alone.
    pub fn new(spec: TransformerSpec) -> Self {
        Self { spec }
    }

    /// Its description.
    pub fn spec(&self) -> &TransformerSpec {
        &self.spec
    }

    /// float32 `[batch, targets_length, vocab]`
    pub fn logits(&self, params: &Params, batch: &Batch, dropout: Dropout) -> Tensor {
        let (head, _) = self.head(params, batch, dropout);
        head.logits().view([batch.num_rows(), -1, self.spec.tokens.vocab_size as i64])
    }

    /// Encoding of `tokens` `[batch, inputs_length]` without packing: `[batch, rows + inputs_length, embed]`.
    pub fn encode(&self, params: &Params, tokens: &Tensor, dropout: Dropout) -> Tensor {
        let params = &self.spec.begin(params);
        let real = self.real_inputs(tokens);
        let input = StackInput {
            embedded: self.with_rows(params, tokens, self.spec.tokens.embed(params, tokens)),
            visible: &match self.encoder().reach {
                Reach::All => Visible::Pairs(pairs(&real, &real)),
                _ => Visible::Examples(real.to_kind(Kind::Int64)),
            },
            real: self.encoder().sparse.is_some().then(|| real.shallow_clone()),
        };
        Stack::new(self.encoder(), params).forward(input, None, dropout).hidden
    }

    /// The encoder's positions that are not padding: int64 `[batch, inputs_length]` to bool `[batch, rows + inputs_length]`.
    pub(super) fn real_inputs(&self, tokens: &Tensor) -> Tensor {
        let real = tokens.gt(0);
        match &self.spec.learned_rows {
            None => real,
            Some(rows) => rows.before_real(&real),
        }
    }

    /// Embedded inputs `[batch, inputs_length, embed]` as they enter the encoder: `[batch, rows + inputs_length, embed]`.
    pub(super) fn with_rows(&self, params: &Params, tokens: &Tensor, embedded: Tensor) -> Tensor {
        match &self.spec.learned_rows {
            None => embedded,
            Some(rows) => rows.among(params, tokens, &embedded),
        }
    }

    /// The encoder, which is the first stack.
    pub(super) fn encoder(&self) -> &StackSpec {
        self.spec.stacks().next().expect("a network has a stack")
    }
}

impl PredictsTargets for T5 {
    const FEATURES: &'static [&'static str] = &[
        feature::ENCODER_INPUT_TOKENS,
        feature::ENCODER_SEGMENT_IDS,
        feature::DECODER_INPUT_TOKENS,
        feature::DECODER_TARGET_TOKENS,
        feature::DECODER_LOSS_WEIGHTS,
        feature::DECODER_SEGMENT_IDS,
    ];

    fn dropout_rate(&self) -> f64 {
        self.spec.dropout_rate
    }

    fn head(&self, params: &Params, batch: &Batch, dropout: Dropout) -> (Head, Vec<RoutingReport>) {
        let inputs = batch.tensor(feature::ENCODER_INPUT_TOKENS);
        let targets = batch.tensor(feature::DECODER_INPUT_TOKENS);
        let is_packed = batch.get(feature::ENCODER_SEGMENT_IDS).is_some();
        assert!(!is_packed || self.spec.of_whole_rows().is_none(), "no example sees another one");
        let params = &self.spec.begin(params);
        // One lookup for both stacks, since its gradient is as large as the embedding.
        let embedded = self.spec.tokens.embed(params, &Tensor::cat(&[inputs, targets], 1));
        let lengths = [inputs, targets].map(|tokens| tokens.size()[1]);
        let real = self.real_inputs(inputs);
        let masks = Masks::new(batch, &real, self.encoder().reach);
        let of_encoder = StackInput {
            embedded: self.with_rows(params, inputs, embedded.narrow(1, 0, lengths[0])),
            visible: &masks.encoder,
            real: self.encoder().sparse.is_some().then_some(real),
        };
        let of_decoder = StackInput {
            embedded: embedded.narrow(1, lengths[0], lengths[1]),
            visible: &Visible::Pairs(masks.decoder),
            real: self.spec.last.sparse.is_some().then(|| decoder_positions(targets)),
        };
        let layers = self.spec.stacks().flat_map(StackSpec::layers);
        let layers = Arc::new(Lookahead::new(params, layers));
        let encoder = Stack::among(&layers, self.encoder(), params);
        let encoded = encoder.forward(of_encoder, None, dropout);
        let encoding = Encoding {
            hidden: encoded.hidden,
            mask: masks.cross.shallow_clone(),
            // Runs are those of tokens alone.
            runs: (batch.facts().filter(|_| self.spec.learned_rows.is_none()))
                .and_then(|facts| facts.cross.clone()),
        };
        let decoder = Stack::among(&layers, &self.spec.last, params);
        let decoded = decoder.forward(of_decoder, Some(&encoding), dropout);
        let reports = encoded.routing.into_iter().chain(decoded.routing).collect();
        (self.spec.tokens.head(params, &decoded.hidden), reports)
    }

    fn new_predictor<'a>(&'a self, params: &'a Params, hypotheses: usize) -> Box<dyn Predict + 'a> {
        Box::new(Predictor::new(self, params, hypotheses))
    }
}

/// Masks of the pairs of positions that may attend, bool `[batch, 1, q_length, kv_length]`; of an encoder whose positions attend
/// to neighbours, the examples.
struct Masks {
    encoder: Visible,
    decoder: Tensor,
    cross: Tensor,
}

impl Masks {
    fn new(batch: &Batch, real_input: &Tensor, reach: Reach) -> Self {
        // Targets, not the decoder's inputs, because those begin with 0.
        let targets = batch.tensor(feature::DECODER_TARGET_TOKENS);
        let real_target = targets.gt(0);
        let causal = causal_mask(targets.size()[1], targets.device());
        let masks = Self {
            encoder: match reach {
                Reach::All => Visible::Pairs(pairs(real_input, real_input)),
                _ => Visible::Examples(real_input.to_kind(Kind::Int64)),
            },
            decoder: pairs(&real_target, &real_target).logical_and(&causal),
            cross: pairs(&real_target, real_input),
        }
        .within_examples(batch);
        match batch.facts() {
            Some(facts) => masks.of_one_row(facts, causal),
            None => masks,
        }
    }

    /// Removes pairs of different examples of packed rows.
    fn within_examples(self, batch: &Batch) -> Self {
        let ids = [feature::ENCODER_SEGMENT_IDS, feature::DECODER_SEGMENT_IDS];
        let [Some(encoder), Some(decoder)] = ids.map(|name| batch.get(name)) else { return self };
        Self {
            encoder: match self.encoder {
                Visible::Pairs(pairs) => {
                    Visible::Pairs(pairs.logical_and(&same_segment(encoder, encoder)))
                }
                Visible::Examples(real) => Visible::Examples(real * encoder),
                other => other,
            },
            decoder: self.decoder.logical_and(&same_segment(decoder, decoder)),
            cross: self.cross.logical_and(&same_segment(decoder, encoder)),
        }
    }

    /// Returns masks of one row instead, if each row is one example without padding: with a
    /// position bias added, they stay as small as the bias.
    fn of_one_row(self, facts: &RowFacts, causal: Tensor) -> Self {
        let all = Tensor::ones([1, 1, 1, 1], (Kind::Bool, causal.device()));
        Self {
            encoder: match self.encoder {
                Visible::Pairs(_) if facts.full_inputs => Visible::Pairs(all),
                encoder => encoder,
            },
            decoder: if facts.full_targets { causal } else { self.decoder },
            cross: self.cross,
        }
    }
}
