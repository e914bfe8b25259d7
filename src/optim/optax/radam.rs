//! RAdam: Adam whose first steps are not divided by a moment of few gradients.

use crate::gin::Configurable;

use super::LearningRate;
use super::expr::gradient;
use super::formula::{Changes, Formula, OptaxSlot, Turn, zeros};
use super::means::{corrected, first_moment, mean, mean_square};

/// RAdam (Liu et al. 2020, arXiv:1908.03265): Adam whose steps are only as long as the second moment
/// is certain. Source: optax `_src/alias.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "optax.radam", alias = "t5x.optimizers.radam")]
pub struct RAdam {
    /// A number, or a schedule of the updates made so far.
    pub learning_rate: LearningRate,
    /// Decay of the gradients' mean.
    #[gin(default = 0.9, limit = BelowOne)]
    pub b1: f64,
    /// Decay of the squared gradients' mean.
    #[gin(default = 0.999, limit = BelowOne)]
    pub b2: f64,
    /// Added to the root of the second moment.
    #[gin(default = 1e-8, limit = NonNegative)]
    pub eps: f64,
    /// Added to the second moment under the root.
    #[gin(default = 0.0, limit = NonNegative)]
    pub eps_root: f64,
    /// Steps are divided by the second moment once the length of its mean reaches this.
    #[gin(default = 5.0)]
    pub threshold: f64,
    /// Whether the first moment looks one update ahead (Dozat 2016).
    #[gin(default = false)]
    pub nesterov: bool,
}

impl Formula for RAdam {
    fn learning_rate(&self) -> &LearningRate {
        &self.learning_rate
    }

    fn rate_count(&self) -> &'static str {
        "1/count"
    }

    fn slots(&self) -> Vec<OptaxSlot> {
        vec![zeros("0/mu", None), zeros("0/nu", None)]
    }

    fn counts(&self) -> Vec<&'static str> {
        vec!["0/count"]
    }

    fn changes(&self, turn: &Turn) -> Changes {
        let mu = mean(0, gradient(), self.b1);
        let nu = mean_square(1, &gradient(), self.b2);
        let first = first_moment(&mu, self.b1, self.nesterov, turn.number());
        let step = match self.certainty(turn) {
            Some(certainty) => {
                let second = corrected(&nu, self.b2, turn.number()) + self.eps_root;
                first * certainty / (second.sqrt() + self.eps)
            }
            None => first,
        };
        Changes { step: step * -turn.learning_rate, state: vec![mu, nu] }
    }
}

impl RAdam {
    /// Returns the factor of steps, the paper's r; `None` below the threshold.
    fn certainty(&self, turn: &Turn) -> Option<f64> {
        let most = 2.0 / (1.0 - self.b2) - 1.0;
        // Float32 as in optax: the difference has few digits.
        let number = turn.number() as f32;
        let power = (self.b2 as f32).powf(number);
        let length = most as f32 - 2.0 * number * power / (1.0 - power);
        let ratio = (length - 4.0) * (length - 2.0) * most as f32
            / (((most - 4.0) * (most - 2.0)) as f32 * length);
        (length >= self.threshold as f32).then(|| f64::from(ratio.sqrt()))
    }
}
