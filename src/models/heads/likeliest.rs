//! The most probable tokens of a head's rows, and the probabilities of given ones, computed a slice of rows at a time.

use tch::{Kind, Tensor};

use super::head::{Head, HeadProducts};

/// The most probable tokens of each row, the first one before the others.
#[derive(Debug)]
pub struct Likeliest {
    /// float32 `[rows, count]`
    pub probabilities: Tensor,
    /// int64 `[rows, count]`
    pub tokens: Tensor,
}

/// Log-probabilities of tokens of each row: of a given one, and then of the most probable ones, which may have it again.
#[derive(Debug)]
pub struct ScoredTokens {
    /// float32 `[rows, 1 + count]`
    pub log_probs: Tensor,
    /// int64 `[rows, 1 + count]`
    pub tokens: Tensor,
}

impl Head {
    /// The log-probabilities of a token of each row, int64 `[rows]`, and of the `count` most probable ones, or all if there
    /// are fewer.
    ///
    /// # Panics
    /// There are no rows.
    pub fn scored(&self, given: &Tensor, count: i64) -> ScoredTokens {
        tch::no_grad(|| {
            let (products, rows) = (HeadProducts::new(self), self.hidden.size()[0]);
            let (at_once, count) = (self.vocabulary.slice_rows(), count.min(self.vocabulary.size));
            let slice = |start: i64| {
                let rows = at_once.min(rows - start);
                let log_probs = products.logits(start, rows).log_softmax(-1, Kind::Float);
                let given = given.narrow(0, start, rows).unsqueeze(-1);
                let (best, tokens) = log_probs.topk(count, -1, true, true);
                let of_given = log_probs.gather(-1, &given, false);
                (Tensor::cat(&[of_given, best], -1), Tensor::cat(&[given, tokens], -1))
            };
            let slices = (0..rows).step_by(at_once as usize).map(slice);
            let (log_probs, tokens): (Vec<_>, Vec<_>) = slices.unzip();
            ScoredTokens { log_probs: Tensor::cat(&log_probs, 0), tokens: Tensor::cat(&tokens, 0) }
        })
    }

    /// The `count` most probable tokens of each row among those below `num_tokens`, with their probabilities among all tokens.
    ///
    /// # Panics
    /// There are no rows, or fewer than `count` tokens.
    pub fn likeliest(&self, num_tokens: i64, count: i64) -> Likeliest {
        tch::no_grad(|| {
            let (products, rows) = (HeadProducts::new(self), self.hidden.size()[0]);
            let at_once = self.vocabulary.slice_rows();
            let slice = |start| {
                let logits = products.logits(start, at_once.min(rows - start));
                let known = logits.softmax(-1, Kind::Float).narrow(-1, 0, num_tokens);
                known.topk(count, -1, true, true)
            };
            let slices = (0..rows).step_by(at_once as usize).map(slice);
            let (probabilities, tokens): (Vec<_>, Vec<_>) = slices.unzip();
            Likeliest {
                probabilities: Tensor::cat(&probabilities, 0),
                tokens: Tensor::cat(&tokens, 0),
            }
        })
    }
}
