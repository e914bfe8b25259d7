//! The loops of decoding with transformers' rules: those of T5X's functions, with changed logits.

use tch::Tensor;

use super::filters::Filters;
use super::spec::Generate;
use crate::models::decoding::beam_search::{Limits, Search};
use crate::models::decoding::decode::{Decodes, NextLogits, Observer, Prompt};
use crate::models::decoding::search_rules::Rules;
use crate::models::decoding::spec::DecodeError;
use crate::models::decoding::temperature_sample::{Sampling, certain, draw, log_prob_of};
use crate::nn::largest_columns;

impl Generate {
    /// Decodes with `model`.
    pub(in crate::models::decoding) fn decode(
        &self,
        prompt: &Prompt,
        model: &mut dyn NextLogits,
        observer: &mut dyn Observer,
    ) -> Result<Decodes, DecodeError> {
        self.check()?;
        if prompt.encoder_inputs.is_none() && self.reads_inputs() {
            return Err(DecodeError::NoEncoder);
        }
        let ends = self.ends(prompt.eos_id);
        let filters = Filters::new(self, prompt, &ends)?;
        if self.num_beams > 1 {
            let search = Search { rules: Rules::Transformers(self, &filters), ends: &ends };
            let length = prompt.inputs.size()[1] + 1;
            let Decodes { sequences, scores } =
                search.decode(prompt, Limits { length, steps: i64::MAX }, model, observer);
            let beams = scores.size()[1];
            let count = (self.num_return_sequences as i64).min(beams);
            let best = |all: Tensor| all.narrow(1, beams - count, count);
            Ok(Decodes { sequences: best(sequences), scores: best(scores) })
        } else {
            let sampling = Sampling { ends: &ends, max_steps: None };
            Ok(sampling.decode(prompt, observer, &mut |sequences, tokens| {
                self.next(&filters, model, sequences, tokens)
            }))
        }
    }

    fn reads_inputs(&self) -> bool {
        self.encoder_repetition_penalty != 1.0 || self.encoder_no_repeat_ngram_size > 0
    }

    /// The token after `sequences` of each row, whose last ones are `tokens`, and its log-probability, both `[rows]`.
    fn next(
        &self,
        filters: &Filters,
        model: &mut dyn NextLogits,
        sequences: &Tensor,
        tokens: &Tensor,
    ) -> (Tensor, Tensor) {
        if filters.is_empty() && !self.do_sample {
            return certain(model.next_most_probable(tokens));
        }
        let logits = filters.apply(sequences, &model.next_logits(tokens));
        if !self.do_sample {
            return certain(largest_columns(&logits));
        }
        let cut = self.cut(&logits);
        let tokens = draw(&cut);
        let log_probs = log_prob_of(&cut, &tokens);
        (tokens, log_probs)
    }
}
