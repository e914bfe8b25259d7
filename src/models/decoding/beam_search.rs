//! Beam search with a live and a finished set. T5X `decoding.py`, `beam_search`.

use tch::{Device, Kind, Tensor};

use super::decode::{Decodes, NextLogits, Observer, Prompt, steps_between_looks, truth};
use super::spec::{BeamSearch, DecodeError, NEG_INF};
use crate::nn::BestColumns;

/// Hypotheses of every input. Sequences start with 0, a position that the result drops.
struct Beams {
    /// int64 `[batch, beams, length + 1]`
    live: Tensor,
    /// float32 `[batch, beams]`, ascending.
    live_log_probs: Tensor,
    /// int64 `[batch, beams, length + 1]`
    finished: Tensor,
    /// float32 `[batch, beams]`, ascending.
    finished_scores: Tensor,
    /// bool `[batch, beams]`: whether the slot is taken.
    finished_flags: Tensor,
    /// Position of the last token.
    index: i64,
    /// Its first value.
    start: i64,
}

/// The `2 * beams` best extensions of every input.
struct Candidates {
    sequences: Tensor,    // int64 [batch, 2 * beams, length + 1]
    log_probs: Tensor,    // [batch, 2 * beams]
    beam_indices: Tensor, // int64 [batch, 2 * beams]: the hypothesis that was extended
    ended: Tensor,        // bool [batch, 2 * beams]
}

impl BeamSearch {
    /// Decodes with `model`.
    pub(super) fn decode(
        &self,
        prompt: &Prompt,
        model: &mut dyn NextLogits,
        observer: &mut dyn Observer,
    ) -> Result<Decodes, DecodeError> {
        let period = steps_between_looks(prompt.inputs.device());
        self.decode_looking(period, prompt, model, observer)
    }

    /// Decodes, and checks after every `period` steps whether the search is over.
    fn decode_looking(
        &self,
        period: i64,
        prompt: &Prompt,
        model: &mut dyn NextLogits,
        observer: &mut dyn Observer,
    ) -> Result<Decodes, DecodeError> {
        // One more position for the 0 at the start of sequences.
        let length = self.check(prompt.inputs.size()[1] as usize)? as i64 + 1;
        let limit = if self.max_decode_step > 0 { self.max_decode_step } else { i64::MAX };
        let mut beams = Beams::new(prompt, length);
        for step in 0..limit.min(length - 1 - prompt.start) {
            let over = self.is_over(&beams, length);
            if step % period == 0 && truth(&over) {
                break;
            }
            let next = self.step(prompt, &beams, model);
            beams = beams.unless_over(&over, next);
            if observer.observe(None).is_break() {
                break;
            }
        }
        Ok(beams.into_decodes(length))
    }

    /// bool `[]`
    fn is_over(&self, beams: &Beams, length: i64) -> Tensor {
        let beam_count = beams.live_log_probs.size()[1];
        let best_live =
            beams.live_log_probs.narrow(1, beam_count - 1, 1) / self.brevity_penalty(length);
        let worst_finished = beams.finished_scores.amin([1], true);
        let worst_finished = worst_finished.where_scalarother(&beams.finished_flags, NEG_INF);
        let cannot_improve = worst_finished.gt_tensor(&best_live).all();
        if beams.index == beams.start {
            return cannot_improve;
        }
        let min_log_prob = self.min_log_prob / self.brevity_penalty(length);
        cannot_improve.logical_or(&best_live.lt(min_log_prob).all())
    }

    fn step(&self, prompt: &Prompt, beams: &Beams, model: &mut dyn NextLogits) -> Beams {
        let (batch, beam_count, _) = beams.live.size3().expect("beams have three axes");
        let candidates = beams.extend(prompt, model);
        let index = beams.index + 1;

        // The best candidates that continue.
        let log_probs = &candidates.log_probs + candidates.ended.to_kind(Kind::Float) * NEG_INF;
        let kept = best_ascending(&log_probs, beam_count);
        let origins = candidates.beam_indices.gather(1, &kept, false);
        let first_rows = Tensor::arange(batch, (Kind::Int64, origins.device())) * beam_count;
        model.reorder(&(origins + first_rows.unsqueeze(-1)).view(-1));
        let live = gather_rows(&candidates.sequences, &kept);
        let live_log_probs = log_probs.gather(1, &kept, false);

        // The best candidates that have ended, now or before.
        let scores = &candidates.log_probs / self.brevity_penalty(index)
            + candidates.ended.logical_not().to_kind(Kind::Float) * NEG_INF;
        let sequences = Tensor::cat(&[&beams.finished, &candidates.sequences], 1);
        let scores = Tensor::cat(&[&beams.finished_scores, &scores], 1);
        let flags = Tensor::cat(&[&beams.finished_flags, &candidates.ended], 1);
        let kept = best_ascending(&scores, beam_count);
        Beams {
            live,
            live_log_probs,
            finished: gather_rows(&sequences, &kept),
            finished_scores: scores.gather(1, &kept, false),
            finished_flags: flags.gather(1, &kept, false),
            index,
            start: beams.start,
        }
    }

    fn brevity_penalty(&self, length: i64) -> f64 {
        ((5.0 + length as f64) / 6.0).powf(self.alpha)
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
            index: prompt.start,
            start: prompt.start,
        }
    }

    /// Returns the best extensions by one token, or by the prompt's token if it has one there.
    fn extend(&self, prompt: &Prompt, model: &mut dyn NextLogits) -> Candidates {
        let (batch, beams, _) = self.live.size3().expect("beams have three axes");
        let logits = model.next_logits(&self.live.select(2, self.index).reshape([-1, 1]));
        // Twice as many, so that enough continue even if all of the best end.
        let num_candidates = 2 * beams;
        // The best of each beam: no other ones can be among the best of all.
        let per_beam = num_candidates.min(logits.size()[1]);
        let BestColumns { log_probs, columns: ids } = BestColumns::of(&logits, per_beam);
        let log_probs = log_probs.view([batch, beams, per_beam]);
        let log_probs = (log_probs + self.live_log_probs.unsqueeze(-1)).view([batch, -1]);
        let (log_probs, indices) = log_probs.topk(num_candidates, -1, true, true);
        let beam_indices = indices.divide_scalar_mode(per_beam, "floor");
        let ids = ids.view([batch, -1]).gather(1, &indices, false);

        // T5X reads past the prompt's end as its last token (jax clamps indices).
        let column = (self.index + 1).min(prompt.inputs.size()[1] - 1);
        let forced = prompt.inputs.narrow(1, column, 1); // [batch, 1]
        let free = forced.eq(0);
        let inside = inside_prompt(num_candidates, log_probs.device());
        let log_probs = log_probs.where_self(&free, &inside);
        let ids = ids.where_self(&free, &forced);
        let sequences = gather_rows(&self.live, &beam_indices);
        sequences.select(2, self.index + 1).copy_(&ids);
        // An end token of the prompt does not end the sequence.
        let ended = ids.eq(prompt.eos_id).logical_and(&free);
        Candidates { sequences, log_probs, beam_indices, ended }
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
        let prompt = Prompt { inputs, eos_id: 1, num_decodes: 3, start: 0 };
        let mut chain = Chain::new(11);
        let mut decode = |period| {
            spec.decode_looking(period, &prompt, &mut chain, &mut ()).expect("nothing contradicts")
        };
        let (at_once, late, last) = (decode(1), decode(7), decode(100));
        // It ended early, so that there was something to change.
        assert!(truth(&at_once.sequences.narrow(2, 20, 10).eq(0).all()));
        for decodes in [late, last] {
            assert_eq!(decodes.sequences, at_once.sequences);
            assert_eq!(decodes.scores, at_once.scores);
        }
    }
}
