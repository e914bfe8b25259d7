//! Predictions: all inputs are read at once, and their keys and values are the start of the cache.

use tch::{Kind, Tensor};

use super::network::{DecoderOnly, prefix_mask};
use crate::models::decoding::{DecodeError, Decodes, Observer, Prediction, Prompt};
use crate::models::transformer::{DecoderCache, Decoding, Stack, StackInput, Visible};
use crate::models::{Batch, Predict, feature};
use crate::nn::{Params, causal_mask, decoder_positions, untracked};

/// A decoder for many batches: its weights, laid out once for that.
#[derive(Debug)]
pub(super) struct Predictor<'a> {
    network: &'a DecoderOnly,
    params: &'a Params,
    decoding: Decoding<'a>,
}

/// The inputs of a batch, which sequences continue.
struct Prefixes {
    tokens: Tensor,  // int64 [batch, length]: 0, the inputs, then 0
    marks: Tensor,   // int64 [batch, length]: 1 up to the last input
    lengths: Tensor, // int64 [batch]: the inputs of each row
}

impl Prefixes {
    fn new(batch: &Batch) -> Self {
        let marks = batch.tensor(feature::DECODER_CAUSAL_ATTENTION);
        let tokens = batch.tensor(feature::DECODER_INPUT_TOKENS) * marks;
        let inputs = tokens.narrow(1, 1, tokens.size()[1] - 1);
        let lengths = inputs.ne(0).sum_dim_intlist(1, false, Kind::Int64);
        Self { tokens, marks: marks.shallow_clone(), lengths }
    }

    /// The prompt for so many sequences of each row, which end in `eos_id`.
    fn prompt(&self, num_decodes: usize, eos_id: i64) -> Prompt {
        Prompt {
            inputs: self.tokens.shallow_clone(),
            bos_id: 0,
            eos_id,
            num_decodes: num_decodes as i64,
            start: self.lengths.min().int64_value(&[]),
            encoder_inputs: None,
            constraint: None,
        }
    }

    /// Removes the inputs from decoded sequences `[batch, num_decodes, length]`, which end in 0
    /// instead. T5X `models.py`, `remove_prefix`.
    fn remove_from(&self, sequences: &Tensor) -> Tensor {
        let length = sequences.size()[2];
        let places = Tensor::arange(length, (Kind::Int64, sequences.device()));
        let places = places.unsqueeze(0) + self.lengths.unsqueeze(1); // [batch, length]
        let inside = places.lt(length).unsqueeze(1);
        let places = places.clamp_max(length - 1).unsqueeze(1).expand_as(sequences);
        sequences.gather(2, &places, false) * inside
    }
}

impl<'a> Predictor<'a> {
    /// Creates a predictor for batches of about so many hypotheses, which is rows times decodes.
    pub fn new(network: &'a DecoderOnly, params: &'a Params, hypotheses: usize) -> Self {
        Self { network, params, decoding: Decoding::new(&network.spec, params, hypotheses) }
    }

    /// Fills a cache with the keys and values of all inputs but each row's last, which the first step
    /// reads again for its logits.
    fn fill(&self, prefixes: &Prefixes, cache: &mut DecoderCache) {
        let (spec, params) = (&self.network.spec, self.params);
        let read = prefixes.lengths.max().int64_value(&[]) + 1;
        let tokens = prefixes.tokens.narrow(1, 0, read);
        let mask = match self.network.inputs_bidirectional_attention {
            true => {
                let marks = prefixes.marks.narrow(1, 0, read);
                // Positions after the prefix are not read, so that only its keys matter.
                prefix_mask(&marks).logical_and(&marks.gt(0).unsqueeze(1).unsqueeze(1))
            }
            // Kernels read a mask of each row.
            false => {
                let rows = tokens.size()[0];
                causal_mask(read, tokens.device()).expand([rows, 1, read, read], false)
            }
        };
        let head_dim = spec.last.dims.head_dim as i64;
        let params = &spec.begin(params);
        let embedded = spec.tokens.embed(params, &tokens);
        let real = spec.last.sparse.is_some().then(|| decoder_positions(&tokens));
        let visible = Visible::masked(mask);
        let input = StackInput { embedded, visible: &visible, real };
        Stack::new(&spec.last, params).watched(input, &mut |layer, joined| {
            let [_, key, value] = &joined.parts()[..] else { unreachable!("query, key and value") };
            let both = Tensor::stack(&[key, value], 2); // [batch, length, 2, joined]
            cache.prefill(layer, &both.unflatten(3, [-1, head_dim]));
        });
    }

    /// Returns a cache that is filled with the inputs, for decoding from that prompt.
    fn cache(&self, prefixes: &Prefixes, prompt: &Prompt) -> DecoderCache {
        let mut cache = self.decoding.new_cache(prompt);
        self.fill(prefixes, &mut cache);
        let lengths = prefixes.lengths.repeat_interleave_self_int(prompt.num_decodes, 0, None);
        cache.begin_at(prompt.start, lengths);
        cache
    }
}

impl Predict for Predictor<'_> {
    /// Reads the inputs.
    fn prefill(&self, batch: &Batch) {
        untracked(|| {
            let prefixes = Prefixes::new(batch);
            drop(self.cache(&prefixes, &prefixes.prompt(1, 0)));
        });
    }

    /// Source: T5X `models.py`, `DecoderOnlyModel.predict_batch_with_aux`.
    fn predict_observed(
        &self,
        batch: &Batch,
        prediction: &Prediction,
        observer: &mut dyn Observer,
    ) -> Result<Decodes, DecodeError> {
        untracked(|| {
            let prefixes = Prefixes::new(batch);
            let constraint = prediction.constraint.clone();
            let prompt = prefixes.prompt(prediction.num_decodes, prediction.eos_id);
            let prompt = Prompt { constraint, ..prompt };
            let cache = self.cache(&prefixes, &prompt);
            let decodes = self.decoding.decode(&prompt, cache, prediction, observer)?;
            Ok(Decodes { sequences: prefixes.remove_from(&decodes.sequences), ..decodes })
        })
    }
}
