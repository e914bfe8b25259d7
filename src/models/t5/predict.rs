//! Autoregressive decoding of a batch with cached keys and values.

use tch::Tensor;

use super::decoder::{Decoder, DecoderCache};
use super::model::T5;
use crate::models::Batch;
use crate::models::decoding::{DecodeError, Decodes, NextLogits, Prediction, Prompt};
use crate::nn::{Dropout, Params};

impl T5 {
    /// Sequences for every row of `batch`, worst to best, as long as its targets. Sampling draws from
    /// torch's generator. Source: T5X `models.py`, `predict_batch_with_aux`.
    pub fn predict_batch_with_aux(
        &self,
        params: &Params,
        batch: &Batch,
        prediction: &Prediction,
    ) -> Result<Decodes, DecodeError> {
        tch::no_grad(|| {
            let inputs = &batch.decoder_input_tokens;
            let prompt = if prediction.prompt_with_targets {
                // An end token in the prompt would end the sequence there.
                inputs * inputs.ne(prediction.eos_id)
            } else {
                inputs.zeros_like()
            };
            let prompt = Prompt {
                inputs: prompt,
                eos_id: prediction.eos_id,
                num_decodes: prediction.num_decodes as i64,
            };
            let tokens = &batch.encoder_input_tokens;
            let mut stepper = Stepper::new(self, params, tokens, &prompt);
            prediction.decode_fn.decode(&prompt, &mut stepper)
        })
    }
}

/// A decoder with its cache.
struct Stepper<'a> {
    t5: &'a T5,
    params: &'a Params,
    decoder: Decoder,
    cache: DecoderCache,
}

impl<'a> Stepper<'a> {
    fn new(t5: &'a T5, params: &'a Params, inputs: &Tensor, prompt: &Prompt) -> Self {
        let encoded = t5.encode(params, inputs, Dropout::off());
        let decoder = Decoder::new(t5.config(), params);
        let max_length = prompt.inputs.size()[1];
        let cache = decoder.new_cache(&encoded, &inputs.gt(0), prompt.num_decodes, max_length);
        Self { t5, params, decoder, cache }
    }
}

impl NextLogits for Stepper<'_> {
    fn next_logits(&mut self, tokens: &Tensor) -> Tensor {
        let embedded = self.t5.embed(self.params, tokens);
        let hidden = self.decoder.step(embedded, &mut self.cache);
        let head = self.t5.head(self.params, hidden);
        head.hidden.matmul(&head.kernel)
    }

    fn reorder(&mut self, indices: &Tensor) {
        self.cache.reorder(indices);
    }
}
