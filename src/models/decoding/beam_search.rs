//! Beam search with a live and a finished set, as T5X and transformers do it.

use tch::{Device, Kind, Tensor};

use super::decode::{Decodes, NextLogits, Observer, Prompt, is_one_of, steps_between_looks, truth};
use super::generate::Filters;
use super::search_rules::Rules;
use super::spec::{BeamSearch, DecodeError, NEG_INF};
use crate::nn::BestColumns;

/// Hypotheses of every input. Sequences start with 0, a position that the result drops.
pub(super) struct Beams {
    /// int64 `[batch, beams, length + 1]`
    pub live: Tensor,
    /// float32 `[batch, beams]`, ascending.
    pub live_log_probs: Tensor,
    /// int64 `[batch, beams, length + 1]`
    finished: Tensor,
    /// float32 `[batch, beams]`, ascending.
    pub finished_scores: Tensor,
    /// bool `[batch, beams]`: whether the slot is taken.
    pub finished_flags: Tensor,
    /// bool `[batch, 1]`: whether the input may still get a better sequence.
    pub open: Tensor,
    /// Position of the last token.
    pub index: i64,
    /// Its first value.
    pub start: i64,
}

/// The best extensions of every input: twice as many as beams, or more if several tokens end a sequence.
struct Candidates {
    sequences: Tensor,    // int64 [batch, candidates, length + 1]
    log_probs: Tensor,    // [batch, candidates]
    beam_indices: Tensor, // int64 [batch, candidates]: the hypothesis that was extended
    ended: Tensor,        // bool [batch, candidates]
}

/// A search by the rules of T5X or transformers.
#[derive(Clone, Copy)]
pub(super) struct Search<'a> {
    /// The scores and the end.
    pub rules: Rules<'a>,
    /// The tokens that end a sequence.
    pub ends: &'a [i64],
}

/// The limits of a search.
#[derive(Clone, Copy)]
pub(super) struct Limits {
    /// Positions of sequences, that of the 0 at their start included.
    pub length: i64,
    /// Greatest number of steps.
    pub steps: i64,
}

impl BeamSearch {
    /// Decodes with `model`.
    pub(super) fn decode(
        &self,
        prompt: &Prompt,
        model: &mut dyn NextLogits,
        observer: &mut dyn Observer,
    ) -> Result<Decodes, DecodeError> {
        let length = self.check(prompt.inputs.size()[1] as usize)? as i64 + 1;
        let steps = if self.max_decode_step > 0 { self.max_decode_step } else { i64::MAX };
        let last = (length - 1).min(prompt.start.saturating_add(steps)) as usize;
        let filters = Filters::of_set(prompt, &|_| last)?;
        let search = Search { rules: Rules::T5x(self, &filters), ends: &[prompt.eos_id] };
        Ok(search.decode(prompt, Limits { length, steps }, model, observer))
    }
}

impl Search<'_> {
    /// Decodes with `model`.
    pub(super) fn decode(
        self,
        prompt: &Prompt,
        limits: Limits,
        model: &mut dyn NextLogits,
        observer: &mut dyn Observer,
    ) -> Decodes {
        let period = steps_between_looks(prompt.inputs.device());
        self.decode_looking(period, prompt, limits, (model, observer))
    }

    /// Decodes, and checks after every `period` steps whether the search is over.
    fn decode_looking(
        self,
        period: i64,
        prompt: &Prompt,
        Limits { length, steps }: Limits,
        (model, observer): (&mut dyn NextLogits, &mut dyn Observer),
    ) -> Decodes {
        let mut beams = Beams::new(prompt, length);
        for step in 0..steps.min(length - 1 - prompt.start) {
            let over = self.rules.is_over(&beams, length);
            if step % period == 0 && truth(&over) {
                break;
            }
            let next = self.step(prompt, &beams, length, model);
            beams = beams.unless_over(&over, next);
            if observer.observe(None).is_break() {
                break;
            }
        }
        beams.into_decodes(length)
    }

    fn step(
        self,
        prompt: &Prompt,
        beams: &Beams,
        length: i64,
        model: &mut dyn NextLogits,
    ) -> Beams {
        let (batch, beam_count, _) = beams.live.size3().expect("beams have three axes");
        let candidates = self.extend(prompt, beams, model);
        let index = beams.index + 1;
        let (stop, finish) = self.rules.stops(beams, &candidates.ended, index == length - 1);

        // The best candidates that continue.
        let log_probs = &candidates.log_probs + stop.to_kind(Kind::Float) * NEG_INF;
        let kept = best_ascending(&log_probs, beam_count);
        let origins = candidates.beam_indices.gather(1, &kept, false);
        let first_rows = Tensor::arange(batch, (Kind::Int64, origins.device())) * beam_count;
        model.reorder(&(origins + first_rows.unsqueeze(-1)).view(-1));
        let live = gather_rows(&candidates.sequences, &kept);
        let live_log_probs = log_probs.gather(1, &kept, false);

        // The best candidates that have ended, now or before.
        let scores = &candidates.log_probs / self.rules.penalty(index, beams.start)
            + finish.logical_not().to_kind(Kind::Float) * NEG_INF;
        let sequences = Tensor::cat(&[&beams.finished, &candidates.sequences], 1);
        let scores = Tensor::cat(&[&beams.finished_scores, &scores], 1);
        let flags = Tensor::cat(&[&beams.finished_flags, &finish], 1);
        let kept = best_ascending(&scores, beam_count);
        let mut next = Beams {
            live,
            live_log_probs,
            finished: gather_rows(&sequences, &kept),
            finished_scores: scores.gather(1, &kept, false),
            finished_flags: flags.gather(1, &kept, false),
            open: beams.open.shallow_clone(),
            index,
            start: beams.start,
        };
        next.open = self.rules.open(&next, length);
        next
    }

    /// Returns the best extensions by one token, or by the prompt's token if it has one there.
    fn extend(self, prompt: &Prompt, from: &Beams, model: &mut dyn NextLogits) -> Candidates {
        let (batch, beams, _) = from.live.size3().expect("beams have three axes");
        let logits = model.next_logits(&from.live.select(2, from.index).reshape([-1, 1]));
        // So many that enough continue even if all of the best end.
        let num_candidates = (1 + self.ends.len() as i64).max(2) * beams;
        // The best of each beam: no other ones can be among the best of all.
        let per_beam = num_candidates.min(logits.size()[1]);
        let BestColumns { log_probs, columns: ids } =
            self.rules.best_columns(from, &logits, per_beam);
        let log_probs = log_probs.view([batch, beams, per_beam]);
        let log_probs = (log_probs + from.live_log_probs.unsqueeze(-1)).view([batch, -1]);
        let (log_probs, indices) = log_probs.topk(num_candidates, -1, true, true);
        let beam_indices = indices.divide_scalar_mode(per_beam, "floor");
        let ids = ids.view([batch, -1]).gather(1, &indices, false);

        // T5X reads past the prompt's end as its last token (jax clamps indices).
        let column = (from.index + 1).min(prompt.inputs.size()[1] - 1);
        let forced = prompt.inputs.narrow(1, column, 1); // [batch, 1]
        let free = forced.eq(0);
        let inside = inside_prompt(num_candidates, log_probs.device());
        let log_probs = log_probs.where_self(&free, &inside);
        let ids = ids.where_self(&free, &forced);
        let sequences = gather_rows(&from.live, &beam_indices);
        sequences.select(2, from.index + 1).copy_(&ids);
        // An end token of the prompt does not end the sequence.
        let ended = is_one_of(&ids, self.ends).logical_and(&free);
        Candidates { sequences, log_probs, beam_indices, ended }
    }
}

impl Beams {
    fn new(prompt: &Prompt, length: i64) -> Self {
        let (batch, device) = (prompt.inputs.size()[0], prompt.inputs.device());
        let beams = prompt.num_decodes;
        let zeros = || Tensor::zeros([batch, beams, length], (Kind::Int64, device));
        let impossible = || Tensor::full([batch, beams], NEG_INF, (Kind::Float, device));
        // One hypothesis at the start: equal ones would stay equal.
        let live_log_probs = impossible();
        let _ = live_log_probs.select(1, 0).fill_(0.0);
        let live = zeros();
        if prompt.start > 0 {
            let read = prompt.inputs.narrow(1, 0, prompt.start + 1).unsqueeze(1);
            live.narrow(2, 0, prompt.start + 1).copy_(&read);
        }
        Self {
            live,
            live_log_probs,
            finished: zeros(),
            finished_scores: impossible(),
            finished_flags: Tensor::zeros([batch, beams], (Kind::Bool, device)),
            open: Tensor::ones([batch, 1], (Kind::Bool, device)),
            index: prompt.start,
            start: prompt.start,
        }
    }

    /// The log-probability of the best hypothesis of each input: `[batch, 1]`
    pub(super) fn best_live(&self) -> Tensor {
        let beam_count = self.live_log_probs.size()[1];
        self.live_log_probs.narrow(1, beam_count - 1, 1)
    }

    /// The least score of the finished sequences of each input: `[batch, 1]`
    pub(super) fn worst_finished(&self) -> Tensor {
        self.finished_scores.amin([1], true)
    }

    /// Returns these beams if the search is `over`, else `next`.
    fn unless_over(&self, over: &Tensor, next: Self) -> Self {
        let pick = |old: &Tensor, new: &Tensor| old.where_self(over, new);
        Self {
            live: pick(&self.live, &next.live),
            live_log_probs: pick(&self.live_log_probs, &next.live_log_probs),
            finished: pick(&self.finished, &next.finished),
            finished_scores: pick(&self.finished_scores, &next.finished_scores),
            finished_flags: pick(&self.finished_flags, &next.finished_flags),
            open: pick(&self.open, &next.open),
            index: next.index,
            start: next.start,
        }
    }

    fn into_decodes(self, length: i64) -> Decodes {
        // An input without any finished sequence yields its live ones.
        let any_finished = self.finished_flags.any_dim(1, true);
        let sequences = self.finished.where_self(&any_finished.unsqueeze(-1), &self.live);
        let scores = self.finished_scores.where_self(&any_finished, &self.live_log_probs);
        Decodes { sequences: sequences.narrow(2, 1, length - 1), scores }
    }
}

/// Inside a prompt one hypothesis is certain and the others impossible. `[1, count]`
fn inside_prompt(count: i64, device: Device) -> Tensor {
    let log_probs = Tensor::full([1, count], NEG_INF, (Kind::Float, device));
    let _ = log_probs.select(1, 0).fill_(0.0);
    log_probs
}

/// Indices of the `count` largest of each row, the largest last. `[batch, count]`
fn best_ascending(values: &Tensor, count: i64) -> Tensor {
    values.topk(count, -1, true, true).1.flip([1])
}

/// `sequences[b, indices[b, i], :]`
fn gather_rows(sequences: &Tensor, indices: &Tensor) -> Tensor {
    let length = sequences.size()[2];
    sequences.gather(1, &indices.unsqueeze(-1).expand([-1, -1, length], false), false)
}

#[cfg(test)]
mod tests {
    use super::super::decode::Chain;
    use super::*;

    #[test]
    fn steps_after_the_end_change_nothing() {
        let spec = BeamSearch { min_log_prob: -9.0, ..BeamSearch::default() };
        let inputs = Tensor::zeros([2, 30], (Kind::Int64, Device::Cpu));
        let _ = inputs.get(1).get(2).fill_(3);
        let prompt = Prompt { num_decodes: 3, ..Prompt::of_answers(inputs) };
        let filters = Filters::of_set(&prompt, &|_| 30).expect("all answers are possible");
        let mut chain = Chain::new(11);
        let search = Search { rules: Rules::T5x(&spec, &filters), ends: &[1] };
        let limits = Limits { length: 31, steps: i64::MAX };
        let mut decode =
            |period| search.decode_looking(period, &prompt, limits, (&mut chain, &mut ()));
        let (at_once, late, last) = (decode(1), decode(7), decode(100));
        // It ended early, so that there was something to change.
        assert!(truth(&at_once.sequences.narrow(2, 20, 10).eq(0).all()));
        for decodes in [late, last] {
            assert_eq!(decodes.sequences, at_once.sequences);
            assert_eq!(decodes.scores, at_once.scores);
        }
    }
}
