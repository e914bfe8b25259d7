//! A BERT behind the interface of networks.

use std::sync::{Arc, OnceLock};

use tch::Tensor;

use super::model::{BertForMaskedLM, BertForPreTraining};
use crate::metrics::sum;
use crate::models::heads::{Divisors, Head, LossOutput, LossSpec, NextSentence, TokenLogits};
use crate::models::parts::EncoderEnds;
use crate::models::transformer::{Stack, StackInput, TransformerSpec, Visible};
use crate::models::{BaseModel, Batch, FillingNetwork, HasNetwork, Network, feature};
use crate::nn::{
    Axis, BlockLayout, Dropout, LayoutTiles, Params, TransformerEngineConfig, same_segment,
};

/// A BERT. It holds no weights: every method gets them as `Params`.
#[derive(Clone, Debug)]
pub struct Bert {
    spec: TransformerSpec,
    // Of each layer, if positions attend to some blocks: those of all heads, and those of the heads that a process has of a
    // divided model.
    tiles: [OnceLock<Arc<[LayoutTiles]>>; 2],
}

impl Bert {
    /// The BERT of that description.
    pub fn new(spec: TransformerSpec) -> Self {
        Self { spec, tiles: Default::default() }
    }

    fn tiles(&self, model: &Axis) -> &Arc<[LayoutTiles]> {
        let (index, count) = (model.index(), model.size());
        let own = |layout: &BlockLayout| LayoutTiles::new(layout.of_heads(index, count));
        let made = &self.tiles[usize::from(!model.is_alone())];
        made.get_or_init(|| self.spec.last.layouts.iter().map(own).collect())
    }

    fn ends(&self) -> &EncoderEnds {
        self.spec.encoder_ends.as_ref().expect("a BERT has ends")
    }

    /// Maps tokens to hidden states, `[batch, length, embed]`, for work that each process does completely. Padding is seen by
    /// none.
    pub fn encode(&self, params: &Params, batch: &Batch, dropout: Dropout) -> Tensor {
        let params = &self.spec.begin(params);
        let tokens = batch.tensor(feature::ENCODER_INPUT_TOKENS);
        let segments = batch.get(feature::ENCODER_SEGMENT_IDS);
        // A masked token may become any other, also padding.
        let real = match batch.get(feature::ENCODER_LOSS_WEIGHTS) {
            Some(weights) => tokens.gt(0).logical_or(&weights.gt(0)),
            None => tokens.gt(0),
        };
        // A padded query sees what others of its row see; its result is not read.
        let runs = batch.facts().and_then(|facts| facts.inputs.clone());
        let model = &params.division().axes.model;
        let visible = match segments {
            _ if !self.spec.last.layouts.is_empty() => Visible::Blocks {
                keys: real,
                segments: segments.map(Tensor::shallow_clone),
                tiles: Arc::clone(self.tiles(model)),
            },
            Some(ids) => {
                let keys = real.unsqueeze(1).unsqueeze(1);
                Visible::Pairs { mask: keys.logical_and(&same_segment(ids, ids)), runs }
            }
            None => Visible::Pairs { mask: real.unsqueeze(1).unsqueeze(1), runs },
        };
        let positions = segments.and_then(|_| batch.get(feature::ENCODER_POSITIONS));
        let embedded = self.spec.tokens.embed(params, tokens);
        let added = [batch.get(feature::ENCODER_TOKEN_TYPES), positions];
        let embedded = self.ends().begin(params, embedded, added);
        let input = StackInput { embedded, visible: &visible, real: None };
        model.repeated(&Stack::new(&self.spec.last, params).forward(input, None, dropout).hidden)
    }

    /// The logits of tokens at some positions of `hidden` `[batch, length, embed]`, to be computed: int64 `[positions]` in the
    /// batch as one row.
    pub fn masked_tokens(&self, params: &Params, hidden: &Tensor, positions: &Tensor) -> Head {
        let rows = hidden.flatten(0, 1).index_select(0, positions);
        self.ends().masked_tokens(params, &rows, &self.spec.tokens)
    }

    /// The logits of classes of rows, to be computed, if the model has some. Of two texts they are their orders.
    pub fn classes(
        &self,
        params: &Params,
        hidden: &Tensor,
        batch: &Batch,
        dropout: Dropout,
    ) -> Option<Head> {
        let tokens = batch.tensor(feature::ENCODER_INPUT_TOKENS);
        self.spec.class_head.map(|head| head.head(params, hidden, tokens, dropout))
    }
}

impl Network for Bert {
    fn dropout(&self) -> Dropout {
        Dropout::train(self.spec.dropout_rate).of_each_position()
    }

    fn features(&self) -> &'static [&'static str] {
        const FEATURES: [&str; 7] = [
            feature::ENCODER_INPUT_TOKENS,
            feature::ENCODER_TARGET_TOKENS,
            feature::ENCODER_LOSS_WEIGHTS,
            feature::ENCODER_TOKEN_TYPES,
            feature::ENCODER_SEGMENT_IDS,
            feature::ENCODER_POSITIONS,
            feature::NEXT_SENTENCE_LABEL,
        ];
        match self.spec.class_head {
            Some(_) => &FEATURES,
            None => &FEATURES[..6],
        }
    }

    fn loss(
        &self,
        params: &Params,
        batch: &Batch,
        spec: &LossSpec,
        dropout: Dropout,
    ) -> LossOutput {
        let hidden = self.encode(params, batch, dropout);
        let places = TokenLogits::MASKED.weighted(batch);
        let head = self.masked_tokens(params, &hidden, &places);
        let mut tokens = TokenLogits::MASKED.loss_at(Some(&places), &head, batch, spec);
        tokens.sums.push((sum::MASKED_TOKENS_LOSS, tokens.value.shallow_clone()));
        let orders = self.classes(params, &hidden, batch, dropout);
        let orders = orders.map(|head| NextSentence.loss(&head.logits(), batch, spec));
        LossOutput::new(batch, [tokens].into_iter().chain(orders))
    }

    fn divisors(&self, batch: &Batch, spec: &LossSpec) -> Divisors {
        let mut divisors = TokenLogits::MASKED.divisors(batch, spec);
        if self.spec.class_head.is_some() {
            divisors.extend(NextSentence.divisors(batch, spec));
        }
        divisors
    }

    fn filling(&self) -> Option<&dyn FillingNetwork> {
        Some(self)
    }
}

impl FillingNetwork for Bert {
    fn head_at(&self, params: &Params, batch: &Batch, positions: &Tensor) -> Head {
        let hidden = self.encode(params, batch, Dropout::off());
        self.masked_tokens(params, &hidden, positions)
    }
}

impl HasNetwork for BertForPreTraining {
    fn network(&self, fp8: Option<&TransformerEngineConfig>) -> Box<dyn Network> {
        Box::new(Bert::new(self.transformer().with_fp8(fp8)))
    }
}

impl HasNetwork for BertForMaskedLM {
    fn network(&self, fp8: Option<&TransformerEngineConfig>) -> Box<dyn Network> {
        Box::new(Bert::new(self.transformer().with_fp8(fp8)))
    }
}
