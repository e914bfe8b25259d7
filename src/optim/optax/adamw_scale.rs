//! AdamW whose steps are in proportion to the root mean square of their parameter, as Adafactor's are.

use crate::gin::Configurable;

use super::LearningRate;
use super::expr::{gradient, param};
use super::formula::{Changes, Formula, OptaxSlot, Turn, zeros};
use super::means::{mean, mean_square};

/// The least root mean square by which a step is multiplied, so that arrays of zeros can leave zero.
const LEAST_SCALE: f64 = 1e-3;

/// AdamW (Loshchilov & Hutter 2019, arXiv:1711.05101) whose steps are multiplied by the root mean square of their parameter, or by 0.001
/// if that is larger: the optimizer of nanoT5 and FAT5. Source: nanoT5 `utils/copied_utils.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "gimlet.optimizers.AdamWScale")]
pub struct AdamWScale {
    /// A number, a schedule of the updates made so far, or 'trainer'.
    #[gin(default = LearningRate::Constant(1e-3))]
    pub lr: LearningRate,
    /// Decays of the gradients' mean and of their squares' mean.
    #[gin(default = (0.9, 0.999))]
    pub betas: (f64, f64),
    /// Added to the root of the second moment, before that is corrected for its first value.
    #[gin(default = 1e-6, limit = NonNegative)]
    pub eps: f64,
    /// Decay of the parameters after each update, as a fraction of them, times the learning rate.
    #[gin(default = 0.0, limit = NonNegative)]
    pub weight_decay: f64,
}

impl Formula for AdamWScale {
    fn learning_rate(&self) -> &LearningRate {
        &self.lr
    }

    fn rate_count(&self) -> &'static str {
        "schedule/count"
    }

    fn slots(&self) -> Vec<OptaxSlot> {
        vec![zeros("exp_avg", None), zeros("exp_avg_sq", None)]
    }

    fn counts(&self) -> Vec<&'static str> {
        vec!["count"]
    }

    fn changes(&self, turn: &Turn) -> Changes {
        let (first, second) =
            (mean(0, gradient(), self.betas.0), mean_square(1, &gradient(), self.betas.1));
        let number = turn.number() as f64;
        let (of_first, of_second) =
            (1.0 - self.betas.0.powf(number), 1.0 - self.betas.1.powf(number));
        let rate = turn.learning_rate * of_second.sqrt() / of_first;
        let size = param().root_mean_square().at_least(LEAST_SCALE) * -rate;
        let mut step = first.clone() / (second.sqrt() + self.eps) * size;
        if self.weight_decay > 0.0 {
            let decay = -turn.learning_rate * self.weight_decay;
            step = step.clone() + (param() + step) * decay;
        }
        Changes { step, state: vec![first, second] }
    }
}
