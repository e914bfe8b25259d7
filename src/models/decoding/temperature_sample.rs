//! Sampling token by token. T5X `decoding.py`, `temperature_sample`, and `binary_search.py`.

use tch::{Kind, Tensor};

use super::decode::{Decodes, NextLogits, Observer, Prompt, is_one_of, steps_between_looks, truth};
use super::generate::Filters;
use super::spec::{DecodeError, NEG_INF, TemperatureSample};
use crate::nn::largest_columns;

/// Temperatures up to this mean the most probable token.
const MIN_TEMPERATURE: f64 = 1e-4;

/// Samples in progress, one per row: `batch * num_decodes`.
struct Samples {
    /// int64 `[rows, length + 2]`: the prompt's first 0, the tokens, and room past the end.
    sequences: Tensor,
    /// int64 `[rows, 1]`
    tokens: Tensor,
    /// bool `[rows, 1]`
    ended: Tensor,
    /// Positions of each row that may be filled, the prompt's included: int64 `[rows, 1]`
    limit: Tensor,
    /// float32 `[rows]`
    log_probs: Tensor,
}

/// Decoding a token of every row at a time.
#[derive(Clone, Copy)]
pub(super) struct Sampling<'a> {
    /// The tokens that end a sequence.
    pub ends: &'a [i64],
    /// Greatest number of tokens after the prompt; by default as many as fit.
    pub max_steps: Option<usize>,
}

/// Returns the token after sequences, int64 `[rows, length]`, whose last ones are given as `[rows, 1]`, and its
/// log-probability, both `[rows]`.
pub(super) type Next<'a> = &'a mut dyn FnMut(&Tensor, &Tensor) -> (Tensor, Tensor);

impl TemperatureSample {
    /// Decodes with `model`.
    pub(super) fn decode(
        &self,
        prompt: &Prompt,
        model: &mut dyn NextLogits,
        observer: &mut dyn Observer,
    ) -> Result<Decodes, DecodeError> {
        let max_steps = self.check(prompt.inputs.size()[1] as usize)?;
        let length = prompt.inputs.size()[1] as usize;
        let last = |prompt: usize| max_steps.map_or(length, |steps| length.min(prompt + steps));
        let filters = Filters::of_set(prompt, &last)?;
        let sampling = Sampling { ends: &[prompt.eos_id], max_steps };
        Ok(sampling.decode(prompt, observer, &mut |sequences, tokens| {
            self.next(&filters, model, sequences, tokens)
        }))
    }

    /// The token after `sequences` of each row, whose last ones are `tokens`, and its log-probability, both `[rows]`.
    fn next(
        &self,
        filters: &Filters,
        model: &mut dyn NextLogits,
        sequences: &Tensor,
        tokens: &Tensor,
    ) -> (Tensor, Tensor) {
        let greedy = self.temperature <= MIN_TEMPERATURE;
        if greedy && self.rescale_log_probs && filters.is_empty() {
            return certain(model.next_most_probable(tokens));
        }
        let logits = model.next_logits(tokens);
        let possible = match filters.is_empty() {
            true => logits.shallow_clone(),
            false => filters.apply(sequences, &logits),
        };
        if greedy && self.rescale_log_probs {
            return certain(largest_columns(&possible));
        }
        let cut = if greedy { possible.shallow_clone() } else { self.cut(&possible) };
        let tokens = if greedy { largest_columns(&possible) } else { draw(&cut) };
        let log_probs = log_prob_of(if self.rescale_log_probs { &cut } else { &logits }, &tokens);
        (tokens, log_probs)
    }

    /// Returns tempered logits, in which tokens that may not be drawn are impossible.
    fn cut(&self, logits: &Tensor) -> Tensor {
        let scaled = logits / self.temperature;
        if self.topk > 0 {
            let count = (self.topk as i64).min(scaled.size()[1]);
            let (largest, _) = scaled.topk(count, -1, true, true);
            let least = largest.narrow(1, count - 1, 1);
            return scaled.where_scalarother(&scaled.ge_tensor(&least), NEG_INF);
        }
        if self.topp > 0.0 {
            let probs = scaled.softmax(-1, Kind::Float);
            let (sorted, _) = probs.sort(-1, true);
            // The first position at which the mass reaches topp.
            let below = sorted.cumsum(-1, Kind::Float).lt(self.topp);
            let position = below.sum_dim_intlist(-1, true, Kind::Int64);
            let position = position.clamp_max(sorted.size()[1] - 1);
            let least = sorted.gather(-1, &position, false);
            return scaled.where_scalarother(&probs.ge_tensor(&least), NEG_INF);
        }
        scaled
    }
}

impl Sampling<'_> {
    /// Decodes with the tokens that `next` gives.
    pub(super) fn decode(
        self,
        prompt: &Prompt,
        observer: &mut dyn Observer,
        next: Next<'_>,
    ) -> Decodes {
        self.decode_looking(steps_between_looks(prompt.inputs.device()), prompt, observer, next)
    }

    /// Decodes, and checks after every `period` steps whether all rows have ended.
    fn decode_looking(
        self,
        period: i64,
        prompt: &Prompt,
        observer: &mut dyn Observer,
        next: Next<'_>,
    ) -> Decodes {
        let (batch, length) = prompt.inputs.size2().expect("a prompt is [batch, length]");
        let mut samples = Samples::new(prompt, self.max_steps);
        for index in prompt.start..length {
            let found = next(&samples.sequences.narrow(1, 0, index + 1), &samples.tokens);
            samples.extend(index, found, self.ends);
            if observer.observe(Some(&samples.tokens)).is_break() {
                break;
            }
            if (index + 1 - prompt.start) % period == 0 && truth(&samples.ended.all()) {
                break;
            }
        }
        samples.into_decodes(batch, length)
    }
}

impl Samples {
    fn new(prompt: &Prompt, max_steps: Option<usize>) -> Self {
        let inputs = prompt.inputs.repeat_interleave_self_int(prompt.num_decodes, 0, None);
        let (rows, length) = inputs.size2().expect("a prompt is [batch, length]");
        let first = inputs.narrow(1, 0, 1);
        let limit = match max_steps {
            None => Tensor::full_like(&first, length),
            Some(steps) => {
                let prompts = inputs.ne(0).sum_dim_intlist(1, true, Kind::Int64);
                (prompts + steps as i64).clamp_max(length)
            }
        };
        Self {
            sequences: inputs.constant_pad_nd([0, 2]),
            tokens: match prompt.start {
                0 => first.zeros_like(),
                start => inputs.narrow(1, start, 1),
            },
            ended: Tensor::zeros([rows, 1], (Kind::Bool, inputs.device())),
            limit,
            log_probs: Tensor::zeros([rows], (Kind::Float, inputs.device())),
        }
    }

    /// Writes the sampled tokens after position `index`, except if the prompt has one there or the
    /// row has ended. Changes nothing once all rows have ended.
    fn extend(&mut self, index: i64, (tokens, log_probs): (Tensor, Tensor), ends: &[i64]) {
        let mut next = self.sequences.narrow(1, index + 1, 1);
        let free = next.eq(0); // [rows, 1]
        let going_on = self.ended.logical_not();
        let counted = free.logical_and(&going_on).squeeze_dim(1);
        // After the end no token may be possible, so that its log-probability is not a number.
        self.log_probs = &self.log_probs + log_probs.where_scalarother(&counted, 0.0);
        let chosen = tokens.unsqueeze(-1).where_self(&free, &next);
        self.tokens = &chosen * going_on.to_kind(Kind::Int64);
        let kept = next.where_self(&self.ended.all(), &self.tokens);
        next.copy_(&kept);
        // End tokens in the prompt do not end the row.
        let found_end = free.logical_and(&is_one_of(&chosen, ends));
        let full = self.limit.le(index + 1);
        self.ended = self.ended.logical_or(&found_end).logical_or(&full);
    }

    fn into_decodes(self, batch: i64, length: i64) -> Decodes {
        let sequences = self.sequences.narrow(1, 1, length).view([batch, -1, length]);
        let log_probs = self.log_probs.view([batch, -1]);
        let order = log_probs.argsort_stable(true, -1, false);
        let index = order.unsqueeze(-1).expand([-1, -1, length], false);
        Decodes {
            sequences: sequences.gather(1, &index, false),
            scores: log_probs.gather(1, &order, false),
        }
    }
}

/// Returns tokens that are certain, int64 `[rows]`, as the most probable ones at temperature 0 are, with their log-probability
/// of 0.
pub(super) fn certain(tokens: Tensor) -> (Tensor, Tensor) {
    let log_probs = Tensor::zeros_like(&tokens).to_kind(Kind::Float);
    (tokens, log_probs)
}

/// One draw per row from the softmax of `logits`: the largest after adding Gumbel noise, which is minus
/// the logarithm of an exponential draw. `[rows]`
pub(super) fn draw(logits: &Tensor) -> Tensor {
    let noise = logits.empty_like().exponential_(1.0).log_();
    largest_columns(&(logits - noise))
}

/// The log-probability of a token of each row: `[rows]`
pub(super) fn log_prob_of(logits: &Tensor, tokens: &Tensor) -> Tensor {
    let chosen = logits.gather(-1, &tokens.unsqueeze(-1), false).squeeze_dim(-1);
    chosen - logits.logsumexp([-1], false)
}

#[cfg(test)]
mod tests {
    use super::super::decode::Chain;
    use super::*;

    #[test]
    fn steps_after_the_end_change_nothing() {
        let greedy = TemperatureSample {
            temperature: 0.0,
            rescale_log_probs: false,
            ..TemperatureSample::default()
        };
        // 4 after 0, 5 after 4, the end after 5.
        let mut chain = Chain::new(8);
        for (token, next) in [(0, 4), (4, 5), (5, 1)] {
            let _ = chain.0.get(token).get(next).fill_(20.0);
        }
        // Both rows end before the prompt's last token.
        let inputs = [[0i64, 0, 0, 0, 6, 0, 0, 0], [0; 8]];
        let prompt = Prompt::of_answers(Tensor::from_slice2(&inputs));
        let filters = Filters::of_set(&prompt, &|_| 8).expect("all answers are possible");
        let sampling = Sampling { ends: &[1], max_steps: None };
        let mut decode = |period| {
            let next: Next<'_> =
                &mut |sequences, tokens| greedy.next(&filters, &mut chain, sequences, tokens);
            sampling.decode_looking(period, &prompt, &mut (), next)
        };
        let (at_once, late) = (decode(1), decode(5));
        let expected = [[4i64, 5, 1, 6, 0, 0, 0, 0], [4, 5, 1, 0, 0, 0, 0, 0]];
        assert_eq!(at_once.sequences.squeeze_dim(1), Tensor::from_slice2(&expected));
        assert_eq!(late.sequences, at_once.sequences);
        assert_eq!(late.scores, at_once.scores);
    }
}
