//! The whole network: embeddings, both stacks and logits.

use tch::{Kind, Tensor};

use super::decoder::{Decoder, DecoderContext};
use super::encoder::Encoder;
use super::spec::T5Config;
use crate::models::loss::Head;
use crate::models::{Batch, Packing, RowFacts};
use crate::nn::{Dropout, Params, causal_mask, embed, kind, pairs, same_segment};

/// A T5. It holds no weights: every method gets them as `Params`.
#[derive(Clone, Debug)]
pub struct T5 {
    config: T5Config,
}

impl T5 {
    /// A T5 of these dimensions.
    pub fn new(config: T5Config) -> Self {
        Self { config }
    }

    /// Its dimensions.
    pub fn config(&self) -> &T5Config {
        &self.config
    }

    /// float32 `[batch, targets_length, vocab]`
    pub fn logits(&self, params: &Params, batch: &Batch, dropout: Dropout) -> Tensor {
        let hidden = self.hidden(params, batch, dropout);
        let head = self.head(params, hidden);
        let (rows, _, length) = batch.dims();
        head.hidden.matmul(&head.kernel).view([rows, length, -1])
    }

    /// Encoding of `tokens` `[batch, inputs_length]` without packing: `[batch, inputs_length, embed]`.
    pub fn encode(&self, params: &Params, tokens: &Tensor, dropout: Dropout) -> Tensor {
        self.begin(params);
        let real = tokens.gt(0);
        let embedded = self.embed(params, tokens);
        Encoder::new(&self.config, params).forward(embedded, &pairs(&real, &real), dropout)
    }

    /// Embedding rows of `tokens` `[batch, length]` in the compute dtype: `[batch, length, embed]`.
    pub fn embed(&self, params: &Params, tokens: &Tensor) -> Tensor {
        embed(params.get("token_embedder/embedding"), tokens, kind(self.config.dtype))
    }

    /// Returns the inputs of the logits of `hidden` `[batch, length, embed]`.
    pub fn head(&self, params: &Params, hidden: Tensor) -> Head {
        let hidden = self.head_inputs(&hidden).view([-1, self.config.emb_dim as i64]);
        Head { hidden, kernel: self.head_kernel(params) }
    }

    /// Returns the head's inputs in float32: logits are float32 for any format of activations.
    pub fn head_inputs(&self, hidden: &Tensor) -> Tensor {
        let hidden = hidden.to_kind(Kind::Float);
        if !self.config.logits_via_embedding {
            return hidden;
        }
        // T5 1.0 divides the logits of a shared embedding by sqrt(emb_dim); so does this.
        hidden / (self.config.emb_dim as f64).sqrt()
    }

    /// Returns the head's kernel: float32 `[embed, vocab]`.
    pub fn head_kernel(&self, params: &Params) -> Tensor {
        if self.config.logits_via_embedding {
            params.get("token_embedder/embedding").tr()
        } else {
            params.get("decoder/logits_dense/kernel").shallow_clone()
        }
    }

    /// Begins a forward pass: sets the format in which projections compute.
    fn begin(&self, params: &Params) {
        params.begin_fp8(self.config.fp8.as_ref());
    }

    /// Returns the decoder's result for `batch`: `[batch, targets_length, embed]`.
    pub(super) fn hidden(&self, params: &Params, batch: &Batch, dropout: Dropout) -> Tensor {
        let (_, inputs_length, targets_length) = batch.dims();
        self.begin(params);
        // One lookup for both stacks, since its gradient is as large as the embedding.
        let tokens = Tensor::cat(&[&batch.encoder_input_tokens, &batch.decoder_input_tokens], 1);
        let embedded = self.embed(params, &tokens);
        let inputs = embedded.narrow(1, 0, inputs_length);
        let targets = embedded.narrow(1, inputs_length, targets_length);
        let masks = Masks::new(batch);
        let encoder = Encoder::new(&self.config, params);
        let context = DecoderContext {
            encoded: encoder.forward(inputs, &masks.encoder, dropout),
            self_mask: masks.decoder,
            cross_mask: masks.cross,
            cross_runs: batch.layout.as_ref().and_then(|layout| layout.cross.clone()),
        };
        Decoder::new(&self.config, params).forward(targets, &context, dropout)
    }
}

/// Masks of the pairs of positions that may attend, bool `[batch, 1, q_length, kv_length]`.
struct Masks {
    encoder: Tensor,
    decoder: Tensor,
    cross: Tensor,
}

impl Masks {
    fn new(batch: &Batch) -> Self {
        let real_input = batch.encoder_input_tokens.gt(0);
        // Targets, not the decoder's inputs, because those begin with 0.
        let real_target = batch.decoder_target_tokens.gt(0);
        let (_, _, length) = batch.dims();
        let causal = causal_mask(length, real_target.device());
        let masks = Self {
            encoder: pairs(&real_input, &real_input),
            decoder: pairs(&real_target, &real_target).logical_and(&causal),
            cross: pairs(&real_target, &real_input),
        };
        let masks = match &batch.packing {
            Some(packing) => masks.within_examples(packing),
            None => masks,
        };
        match &batch.layout {
            Some(layout) => masks.of_one_row(layout, causal),
            None => masks,
        }
    }

    fn within_examples(self, packing: &Packing) -> Self {
        let (encoder, decoder) = (&packing.encoder_segment_ids, &packing.decoder_segment_ids);
        Self {
            encoder: self.encoder.logical_and(&same_segment(encoder, encoder)),
            decoder: self.decoder.logical_and(&same_segment(decoder, decoder)),
            cross: self.cross.logical_and(&same_segment(decoder, encoder)),
        }
    }

    /// Returns masks of one row instead, if each row is one example without padding: with a
    /// position bias added, they stay as small as the bias.
    fn of_one_row(self, layout: &RowFacts, causal: Tensor) -> Self {
        let all = Tensor::ones([1, 1, 1, 1], (Kind::Bool, causal.device()));
        Self {
            encoder: if layout.full_inputs { all } else { self.encoder },
            decoder: if layout.full_targets { causal } else { self.decoder },
            cross: self.cross,
        }
    }
}
