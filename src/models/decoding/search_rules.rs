//! The rules in which T5X's beam search and transformers' differ.

use tch::{Kind, Tensor};

use super::beam_search::Beams;
use super::generate::{EarlyStopping, Filters, Generate};
use super::spec::{BeamSearch, NEG_INF};
use crate::nn::BestColumns;

/// The rules of a search.
#[derive(Clone, Copy)]
pub(super) enum Rules<'a> {
    /// T5X `decoding.py`, `beam_search`, with the limits of a set of answers.
    T5x(&'a BeamSearch, &'a Filters),
    /// transformers `generation/utils.py`, `_beam_search`, with the changes to log-probabilities.
    Transformers(&'a Generate, &'a Filters),
}

impl Rules<'_> {
    /// The divisor of the log-probability of a sequence whose last token is at `index`, after a prompt up to `start`.
    pub(super) fn penalty(self, index: i64, start: i64) -> f64 {
        match self {
            Self::T5x(spec, _) => ((5.0 + index as f64) / 6.0).powf(spec.alpha),
            Self::Transformers(spec, _) => ((index - start) as f64).powf(spec.length_penalty),
        }
    }

    /// The most probable next tokens of each hypothesis.
    pub(super) fn best_columns(self, beams: &Beams, logits: &Tensor, count: i64) -> BestColumns {
        let (Self::T5x(_, filters) | Self::Transformers(_, filters)) = self;
        if filters.is_empty() {
            return BestColumns::of(logits, count);
        }
        let sequences = beams.live.narrow(2, 0, beams.index + 1).flatten(0, 1);
        let log_probs = logits.log_softmax(-1, Kind::Float);
        let (log_probs, columns) =
            filters.apply(&sequences, &log_probs).topk(count, -1, true, true);
        BestColumns { log_probs, columns }
    }

    /// Returns which candidates stop, and which of these join the finished ones, both bool `[batch, candidates]`.
    /// `ended` marks those with an end token; at the last position all stop.
    pub(super) fn stops(self, beams: &Beams, ended: &Tensor, is_last: bool) -> (Tensor, Tensor) {
        match self {
            Self::T5x(..) => (ended.shallow_clone(), ended.shallow_clone()),
            Self::Transformers(..) => {
                let stop = if is_last { ended.ones_like() } else { ended.shallow_clone() };
                let ranks = Tensor::arange(ended.size()[1], (Kind::Int64, ended.device()));
                let is_best = ranks.lt(beams.live_log_probs.size()[1]);
                let finish = stop.logical_and(&is_best).logical_and(&beams.open);
                (stop, finish)
            }
        }
    }

    /// Whether each input may still get a better sequence: bool `[batch, 1]`
    pub(super) fn open(self, beams: &Beams, length: i64) -> Tensor {
        let Self::Transformers(spec, _) = self else { return beams.open.shallow_clone() };
        let full = beams.finished_flags.all_dim(1, true);
        let index = match spec.early_stopping {
            EarlyStopping::Never if spec.length_penalty > 0.0 => length - 1,
            _ => beams.index,
        };
        let best_live = beams.best_live() / self.penalty(index, beams.start);
        let can_improve =
            best_live.gt_tensor(&beams.worst_finished()).logical_or(&full.logical_not());
        // In a small set of answers all hypotheses may have ended.
        let can_improve = can_improve.logical_and(&best_live.gt(f64::NEG_INFINITY));
        match spec.early_stopping {
            EarlyStopping::Full => {
                beams.open.logical_and(&full.logical_not()).logical_and(&can_improve)
            }
            _ => beams.open.logical_and(&can_improve),
        }
    }

    /// Whether the search is over: bool `[]`
    pub(super) fn is_over(self, beams: &Beams, length: i64) -> Tensor {
        let Self::T5x(spec, _) = self else { return beams.open.logical_not().all() };
        let best_live = beams.best_live() / self.penalty(length, beams.start);
        let worst_finished = beams.worst_finished();
        let worst_finished = worst_finished.where_scalarother(&beams.finished_flags, NEG_INF);
        let cannot_improve = worst_finished.gt_tensor(&best_live).all();
        if beams.index == beams.start {
            return cannot_improve;
        }
        let min_log_prob = spec.min_log_prob / self.penalty(length, beams.start);
        cannot_improve.logical_or(&best_live.lt(min_log_prob).all())
    }
}
