//! The most probable tokens of a head's rows, computed a slice of rows at a time.

use tch::{Kind, Tensor};

use super::cross_entropy::slice_rows;
use super::head::{Head, HeadProducts};

/// The most probable tokens of each row, the first one before the others.
#[derive(Debug)]
pub struct Likeliest {
    /// float32 `[rows, count]`
    pub probabilities: Tensor,
    /// int64 `[rows, count]`
    pub tokens: Tensor,
}

impl Head {
    /// The `count` most probable tokens of each row among those below `num_tokens`, with their probabilities among all tokens.
    ///
    /// # Panics
    /// There are no rows, or fewer than `count` tokens.
    pub fn likeliest(&self, num_tokens: i64, count: i64) -> Likeliest {
        tch::no_grad(|| {
            let (products, rows) = (HeadProducts::new(self), self.hidden.size()[0]);
            let at_once = slice_rows(&self.vocabulary);
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
