//! A learning rate that falls when a metric of the evaluations no longer improves. Source: torch `optim/lr_scheduler.py`.

use serde::{Deserialize, Serialize};

use crate::gin::Configurable;

use super::spec::EarlyStoppingMode;

/// Multiplies the Trainer's learning rate by a factor whenever a metric has not improved for a while. Its state is kept by
/// checkpoints. Source: torch `optim/lr_scheduler.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "gimlet.ReduceLROnPlateau")]
pub struct ReduceLROnPlateau {
    /// The metric, as `gimlet.BestModel.metric` names it.
    #[gin(default = "loss".to_string())]
    pub metric: String,
    /// The better direction.
    #[gin(default = EarlyStoppingMode::Min)]
    pub mode: EarlyStoppingMode,
    /// The factor of the learning rate.
    #[gin(default = 0.1)]
    pub factor: f64,
    /// The number of evaluations without improvement that change nothing; one more lowers the learning rate.
    #[gin(default = 10)]
    pub patience: u64,
    /// The smallest improvement.
    #[gin(default = 1e-4)]
    pub threshold: f64,
    /// Whether that is a part of the best value ('rel') or a difference ('abs').
    #[gin(default = ThresholdMode::Rel)]
    pub threshold_mode: ThresholdMode,
    /// The number of evaluations after a change that do not count.
    #[gin(default = 0)]
    pub cooldown: u64,
    /// The learning rate does not fall below this.
    #[gin(default = 0.0)]
    pub min_lr: f64,
    /// The smallest change of the learning rate; a smaller one is not made.
    #[gin(default = 1e-8)]
    pub eps: f64,
}

/// The meaning of a threshold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Configurable)]
pub enum ThresholdMode {
    /// A part of the best value.
    Rel,
    /// A difference.
    Abs,
}

/// The state of such a rule.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plateau {
    /// The best value so far; `None` before the first.
    pub best: Option<f64>,
    /// Evaluations without improvement.
    pub num_bad: u64,
    /// Evaluations that still do not count.
    pub cooldown: u64,
    /// The factor of the Trainer's learning rate.
    pub scale: f64,
}

impl Default for Plateau {
    fn default() -> Self {
        Self { best: None, num_bad: 0, cooldown: 0, scale: 1.0 }
    }
}

impl ReduceLROnPlateau {
    /// Takes up the value of an evaluation; `rate` is the Trainer's learning rate of the next update.
    pub fn see(&self, plateau: &mut Plateau, value: f64, rate: f64) {
        if self.improves(value, plateau.best) {
            (plateau.best, plateau.num_bad) = (Some(value), 0);
        } else {
            plateau.num_bad += 1;
        }
        if plateau.cooldown > 0 {
            (plateau.cooldown, plateau.num_bad) = (plateau.cooldown - 1, 0);
        }
        if plateau.num_bad > self.patience {
            let old = rate * plateau.scale;
            let new = (old * self.factor).max(self.min_lr);
            if old - new > self.eps {
                plateau.scale *= new / old;
            }
            (plateau.cooldown, plateau.num_bad) = (self.cooldown, 0);
        }
    }

    fn improves(&self, value: f64, best: Option<f64>) -> bool {
        let sign = if self.mode == EarlyStoppingMode::Min { -1.0 } else { 1.0 };
        let bound = best.map(|best| match self.threshold_mode {
            ThresholdMode::Rel => best * (1.0 + sign * self.threshold),
            ThresholdMode::Abs => best + sign * self.threshold,
        });
        self.mode.improves(value, bound)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const METRICS: [f64; 14] =
        [3.0, 2.0, 2.0, 1.9999, 2.5, 2.0, 1.0, 0.9, 0.95, 0.95, 0.95, 0.95, 0.95, 0.95];

    /// `expected` are learning rates of torch, printed by `tests/numerics/plateau.py`; relative 1e-12.
    fn check(rule: ReduceLROnPlateau, expected: [f64; 14]) {
        let mut plateau = Plateau::default();
        for (metric, expected) in METRICS.into_iter().zip(expected) {
            rule.see(&mut plateau, metric, 0.01);
            let found = 0.01 * plateau.scale;
            assert!((found - expected).abs() <= 1e-12 * expected, "{found} is not {expected}");
        }
    }

    #[test]
    fn learning_rates_equal_those_of_torch() {
        let rule = ReduceLROnPlateau {
            metric: "loss".to_string(),
            mode: EarlyStoppingMode::Min,
            factor: 0.1,
            patience: 1,
            threshold: 1e-4,
            threshold_mode: ThresholdMode::Rel,
            cooldown: 0,
            min_lr: 0.0,
            eps: 1e-8,
        };
        let [a, b, c, d, e, f] = [1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7];
        check(rule.clone(), [a, a, a, b, b, c, c, c, c, d, d, e, e, f]);
        let halved = ReduceLROnPlateau {
            patience: 0,
            factor: 0.5,
            cooldown: 2,
            min_lr: 0.003,
            ..rule.clone()
        };
        let mut expected = [0.003; 14];
        expected[..5].copy_from_slice(&[a, a, 0.005, 0.005, 0.005]);
        check(halved, expected);
        let (mode, threshold_mode) = (EarlyStoppingMode::Max, ThresholdMode::Abs);
        let greatest = ReduceLROnPlateau { mode, threshold: 0.2, threshold_mode, ..rule };
        check(greatest, [a, a, b, b, c, c, d, d, e, e, f, f, 1e-8, 1e-8]);
    }
}
