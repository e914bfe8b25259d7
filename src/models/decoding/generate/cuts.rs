//! The tokens from which a sample is drawn: transformers' logits warpers.

use tch::{Kind, Tensor};

use super::spec::Generate;

/// Whether a cut applies, and its computation on logits `[rows, vocab]`.
type Cut<'a> = (bool, &'a dyn Fn(&Tensor) -> Tensor);

/// The number of most probable tokens of which `top_h` keeps some.
const TOP_H_TOKENS: i64 = 100;

impl Generate {
    /// Returns tempered logits, float32 `[rows, vocab]`, in which tokens that may not be drawn are impossible.
    pub(super) fn cut(&self, logits: &Tensor) -> Tensor {
        let mut logits = logits / self.temperature;
        let cuts: [Cut<'_>; 7] = [
            (self.top_h.is_some(), &|logits| but_best(logits, &self.beyond_entropy(logits))),
            (self.top_k > 0, &|logits| logits.lt_tensor(&largest(logits, self.top_k))),
            (self.top_p < 1.0, &|logits| but_best(logits, &beyond_mass(logits, self.top_p))),
            (self.min_p.is_some(), &|logits| {
                let probs = logits.softmax(-1, Kind::Float);
                probs.lt_tensor(&(probs.amax([-1], true) * self.min_p.unwrap_or(0.0)))
            }),
            (self.typical_p < 1.0, &|logits| untypical(logits, self.typical_p)),
            (self.epsilon_cutoff > 0.0, &|logits| {
                but_best(logits, &logits.softmax(-1, Kind::Float).lt(self.epsilon_cutoff))
            }),
            (self.eta_cutoff > 0.0, &|logits| {
                let low = (-entropy(logits)).exp() * self.eta_cutoff.sqrt();
                let low = low.clamp_max(self.eta_cutoff);
                but_best(logits, &logits.softmax(-1, Kind::Float).lt_tensor(&low))
            }),
        ];
        for (_, removed) in cuts.iter().filter(|(is_on, _)| *is_on) {
            logits = logits.masked_fill(&removed(&logits), f64::NEG_INFINITY);
        }
        logits
    }

    /// Marks tokens beyond those that together have `top_h` of the entropy of the most probable ones.
    fn beyond_entropy(&self, logits: &Tensor) -> Tensor {
        let count = TOP_H_TOKENS.min(logits.size()[1]);
        let (best, columns) = logits.topk(count, -1, true, true);
        let log_probs = best.log_softmax(-1, Kind::Float);
        let terms = -(log_probs.exp() * log_probs).nan_to_num(0.0, 0.0, 0.0);
        let most = terms.sum_dim_intlist(-1, true, Kind::Float) * self.top_h.unwrap_or(1.0);
        let removed = terms.cumsum(-1, Kind::Float).gt_tensor(&most);
        let all = Tensor::ones(logits.size(), (Kind::Bool, logits.device()));
        all.scatter(1, &columns, &removed)
    }
}

/// Removes the mark of the most probable tokens.
fn but_best(logits: &Tensor, marks: &Tensor) -> Tensor {
    marks.logical_and(&logits.lt_tensor(&logits.amax([-1], true)))
}

/// The logit of the token of that rank: `[rows, 1]`
fn largest(logits: &Tensor, rank: usize) -> Tensor {
    let rank = (rank as i64).min(logits.size()[1]);
    logits.topk(rank, -1, true, true).0.narrow(1, rank - 1, 1)
}

/// Marks the least probable tokens that together have at most the probability that `mass` leaves.
fn beyond_mass(logits: &Tensor, mass: f64) -> Tensor {
    let (ascending, columns) = logits.sort(-1, false);
    let below = ascending.softmax(-1, Kind::Float).cumsum(-1, Kind::Float);
    let removed = below.le(1.0 - mass);
    removed.scatter(1, &columns, &removed)
}

/// `[rows, 1]`
fn entropy(logits: &Tensor) -> Tensor {
    let log_probs = logits.log_softmax(-1, Kind::Float);
    -(log_probs.exp() * &log_probs).nansum([-1i64].as_slice(), true, Kind::Float)
}

/// Marks tokens whose information differs most from the entropy, beyond those that together have the probability `mass`.
fn untypical(logits: &Tensor, mass: f64) -> Tensor {
    let distance = (logits.log_softmax(-1, Kind::Float) + entropy(logits)).abs();
    let (ascending, columns) = distance.sort(-1, false);
    let probs = logits.gather(-1, &columns, false).softmax(-1, Kind::Float);
    let below = probs.cumsum(-1, Kind::Float).lt(mass).sum_dim_intlist(-1, true, Kind::Int64);
    let greatest = ascending.gather(1, &below.clamp_max(ascending.size()[1] - 1), false);
    distance.gt_tensor(&greatest)
}
