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
use crate::models::{Batch, Predict, feature};
use crate::nn::{
    Dropout, Lookahead, Params, RoutingReport, Runs, causal_mask, decoder_positions, pairs,
    same_segment,
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

    /// Encoding of the inputs `[batch, inputs_length]` of a batch without packing: `[batch, rows + inputs_length, embed]`.
    pub fn encode(&self, params: &Params, batch: &Batch, dropout: Dropout) -> Tensor {
        let params = &self.spec.begin(params);
        let tokens = batch.tensor(feature::ENCODER_INPUT_TOKENS);
        let real = self.real_inputs(tokens);
        let input = StackInput {
            embedded: self.with_rows(params, tokens, self.spec.tokens.embed(params, tokens)),
            visible: &self.visible_inputs(&self.side_of_inputs(batch, &real)),
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

    /// The encoder's side of a batch, of whose positions these are not padding.
    fn side_of_inputs<'a>(&self, batch: &'a Batch, real: &'a Tensor) -> Side<'a> {
        Side {
            real,
            ids: batch.get(feature::ENCODER_SEGMENT_IDS),
            runs: batch.facts().and_then(|facts| facts.inputs.as_ref()),
            is_longer: self.spec.learned_rows.is_some(),
        }
    }

    /// The encoder's positions that may attend to each other.
    fn visible_inputs(&self, inputs: &Side<'_>) -> Visible {
        match self.encoder().reach {
            Reach::All => inputs.own(self.seen_rows(inputs.real)),
            _ => inputs.examples(),
        }
    }

    /// The same pairs in rows without padding: bool `[1, 1, length, length]`; `None` if all may attend.
    fn seen_rows(&self, real: &Tensor) -> Option<Tensor> {
        let rows = self.spec.learned_rows.as_ref()?;
        rows.visible(real.size()[1], real.device())
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
        let masks = Masks::new(batch, &real, self);
        let of_encoder = StackInput {
            embedded: self.with_rows(params, inputs, embedded.narrow(1, 0, lengths[0])),
            visible: &masks.encoder,
            real: self.encoder().sparse.is_some().then_some(real),
        };
        let of_decoder = StackInput {
            embedded: embedded.narrow(1, lengths[0], lengths[1]),
            visible: &masks.decoder,
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

/// The positions of one side of a batch.
struct Side<'a> {
    real: &'a Tensor, // bool [batch, length]
    /// The example of each position, if rows are packed.
    ids: Option<&'a Tensor>,
    /// The examples of its tokens, if the host knows them.
    runs: Option<&'a Runs>,
    /// Whether it has learned rows beside tokens, which these examples leave out.
    is_longer: bool,
}

impl Side<'_> {
    /// Pairs of positions of one example: bool `[batch, 1, length, length of keys]`.
    fn pairs(&self, keys: &Self) -> Tensor {
        let mask = pairs(self.real, keys.real);
        match self.ids.zip(keys.ids) {
            Some((queries, keys)) => mask.logical_and(&same_segment(queries, keys)),
            None => mask,
        }
    }

    /// Its own pairs that are `allowed`, bool `[1, 1, length, length]`; `None` allows all. If each row is one example without
    /// padding, a mask of one row suffices: with a position bias added, it stays as small as the bias.
    fn own(&self, allowed: Option<Tensor>) -> Visible {
        let mask = match (self.runs.is_some_and(Runs::are_whole_rows), allowed) {
            (true, Some(allowed)) => allowed,
            (true, None) => Tensor::ones([1, 1, 1, 1], (Kind::Bool, self.real.device())),
            (false, Some(allowed)) => self.pairs(self).logical_and(&allowed),
            (false, None) => self.pairs(self),
        };
        Visible::Pairs { mask, runs: self.runs.filter(|_| !self.is_longer).cloned() }
    }

    /// Its examples, for positions that attend to neighbours.
    fn examples(&self) -> Visible {
        let real = self.real.to_kind(Kind::Int64);
        Visible::Examples(self.ids.map_or_else(|| real.shallow_clone(), |ids| &real * ids))
    }
}

/// The pairs of positions that may attend.
struct Masks {
    encoder: Visible,
    decoder: Visible,
    cross: Tensor, // bool [batch, 1, targets_length, inputs_length]
}

impl Masks {
    fn new(batch: &Batch, real_input: &Tensor, t5: &T5) -> Self {
        let inputs = t5.side_of_inputs(batch, real_input);
        // Targets, not the decoder's inputs, because those begin with 0.
        let targets = Side {
            real: &batch.tensor(feature::DECODER_TARGET_TOKENS).gt(0),
            ids: batch.get(feature::DECODER_SEGMENT_IDS),
            runs: batch.facts().and_then(|facts| facts.targets.as_ref()),
            is_longer: false,
        };
        let (length, device) = (targets.real.size()[1], targets.real.device());
        Self {
            encoder: t5.visible_inputs(&inputs),
            decoder: targets.own(Some(causal_mask(length, device))),
            cross: targets.pairs(&inputs),
        }
    }
}
