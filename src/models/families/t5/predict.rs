//! Predictions: inputs are encoded, and targets decoded with cached keys and values.

use tch::Tensor;

use super::model::T5;
use crate::models::decoding::{DecodeError, Decodes, Observer, Prediction, Prompt};
use crate::models::parts::Reach;
use crate::models::transformer::{Decoding, PackedStack};
use crate::models::{Batch, Predict, feature};
use crate::nn::{Dropout, PackedKernel, Params, untracked};

/// A model for decoding many batches: its weights, laid out once for that.
#[derive(Debug)]
pub struct Predictor<'a> {
    t5: &'a T5,
    params: &'a Params,
    encoder: Option<PackedStack>, // unless only the one that trains can do it
    decoding: Decoding<'a>,
}

impl<'a> Predictor<'a> {
    /// Creates a predictor for batches of about so many hypotheses, which is rows times decodes.
    pub fn new(t5: &'a T5, params: &'a Params, hypotheses: usize) -> Self {
        let decoding = Decoding::new(&t5.spec, params, hypotheses);
        let has_fp8 = t5.spec.fp8.as_ref().is_some_and(|fp8| fp8.enable_fp8);
        let is_causal = t5.spec.learned_rows.as_ref().is_some_and(|rows| rows.is_causal);
        let sees_all = t5.encoder().reach == Reach::All && !is_causal;
        let packed =
            sees_all && !has_fp8 && PackedStack::suits_sequences(t5.encoder(), decoding.device());
        let encoder = packed.then(|| {
            let params = t5.spec.of_layers(params);
            tch::no_grad(|| PackedStack::new(t5.encoder(), &params, PackedKernel::MANY_ROWS))
        });
        Self { t5, params, encoder, decoding }
    }

    /// Encodes the inputs `[batch, inputs_length]`, in which 0 is padding: `[batch, rows + inputs_length, embed]`.
    fn encode(&self, batch: &Batch) -> Tensor {
        let Some(encoder) = &self.encoder else {
            return self.t5.encode(self.params, batch, Dropout::off());
        };
        let inputs = batch.tensor(feature::ENCODER_INPUT_TOKENS);
        let embedded = self.t5.spec.tokens.embed(self.params, inputs);
        let embedded = self.t5.with_rows(self.params, inputs, embedded);
        encoder.encode(&embedded, &self.t5.real_inputs(inputs))
    }
}

impl Predict for Predictor<'_> {
    /// Encodes the inputs.
    fn prefill(&self, batch: &Batch) {
        let _ = untracked(|| self.encode(batch));
    }

    /// Source: T5X `models.py`, `EncoderDecoderModel.predict_batch_with_aux`.
    fn predict_observed(
        &self,
        batch: &Batch,
        prediction: &Prediction,
        observer: &mut dyn Observer,
    ) -> Result<Decodes, DecodeError> {
        untracked(|| {
            let inputs = batch.tensor(feature::ENCODER_INPUT_TOKENS);
            let targets = batch.tensor(feature::DECODER_INPUT_TOKENS);
            let prompt = if prediction.prompt_with_targets {
                // An end token in the prompt would end the sequence there.
                let prompt = targets * targets.ne(prediction.eos_id);
                let _ = prompt.select(1, 0).fill_(0); // the decoder's first token
                prompt
            } else {
                targets.zeros_like()
            };
            let prompt = Prompt {
                inputs: prompt,
                bos_id: prediction.bos_id,
                eos_id: prediction.eos_id,
                num_decodes: prediction.num_decodes as i64,
                start: 0,
                encoder_inputs: Some(inputs.shallow_clone()),
                constraint: prediction.constraint.clone(),
            };
            let encoded = self.encode(batch);
            let mut cache = self.decoding.new_cache(&prompt);
            self.decoding.decoder().read_encoding(
                &mut cache,
                &encoded,
                &self.t5.real_inputs(inputs),
            );
            self.decoding.decode(&prompt, cache, prediction, observer)
        })
    }
}
