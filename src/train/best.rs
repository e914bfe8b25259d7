//! The best model of a run by a metric of its evaluations: it is saved, and a run without a better one for long ends.

use serde::{Deserialize, Serialize};

use crate::gin::Configurable;

use super::spec::EarlyStoppingMode;

/// Watches a metric at every evaluation: the model is saved whenever the metric is better than ever before, and the run ends
/// when it was not for too long. Both the best value and the count are kept by checkpoints. Source: t5-experiments
/// `lm_experiments_tools/trainer.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "gimlet.BestModel")]
pub struct BestModel {
    /// The metric: of predictions, if they have one of this name, else of held-out batches; with several tasks that of the first
    /// that has it, or 'TASK/METRIC'.
    #[gin(default = "loss".to_string())]
    pub metric: String,
    /// The better direction.
    #[gin(default = EarlyStoppingMode::Min)]
    pub mode: EarlyStoppingMode,
    /// Whether the best model so far is saved: as the only checkpoint in the folder `best` of MODEL_DIR, or as `model_best.pth` if
    /// utils.SaveCheckpointConfig.format is 'trainer'.
    #[gin(default = true)]
    pub save: bool,
    /// The number of evaluations without improvement, one after the other, that do not end the run: one more does. None for any
    /// number.
    #[gin(default = None)]
    pub patience: Option<u64>,
}

/// The best value of a metric so far.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct BestSoFar {
    /// `None` before the first.
    pub value: Option<f64>,
    /// Evaluations since then.
    pub without_improvement: u64,
}

impl EarlyStoppingMode {
    /// Whether a value is better than the best one, which may be missing. NaN never is.
    pub fn improves(self, value: f64, best: Option<f64>) -> bool {
        match self {
            Self::Min => value < best.unwrap_or(f64::INFINITY),
            Self::Max => value > best.unwrap_or(f64::NEG_INFINITY),
        }
    }
}

impl BestModel {
    /// Takes up the value of an evaluation, and returns whether it is better than all before.
    pub fn see(&self, best: &mut BestSoFar, value: f64) -> bool {
        let improves = self.mode.improves(value, best.value);
        *best = match improves {
            true => BestSoFar { value: Some(value), without_improvement: 0 },
            false => BestSoFar { without_improvement: best.without_improvement + 1, ..*best },
        };
        improves
    }

    /// Whether the metric has not improved for too long.
    pub fn is_over(&self, best: &BestSoFar) -> bool {
        self.patience.is_some_and(|patience| best.without_improvement > patience)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(mode: EarlyStoppingMode, values: &[f64], improvements: &[bool], ends: bool) {
        let (metric, patience) = ("loss".to_string(), Some(1));
        let model = BestModel { metric, mode, save: true, patience };
        let mut best = BestSoFar::default();
        let found: Vec<bool> = values.iter().map(|value| model.see(&mut best, *value)).collect();
        assert_eq!((&found[..], model.is_over(&best)), (improvements, ends), "{values:?}");
    }

    #[test]
    fn only_a_better_value_is_an_improvement_and_patience_is_exceeded_not_reached() {
        let (min, max) = (EarlyStoppingMode::Min, EarlyStoppingMode::Max);
        check(min, &[3.0, 3.0], &[true, false], false);
        check(min, &[3.0, f64::NAN, 3.5], &[true, false, false], true);
        check(min, &[3.0, 4.0, 2.0, 2.0], &[true, false, true, false], false);
        check(max, &[-1.0, -2.0, 0.5], &[true, false, true], false);
        check(max, &[f64::NEG_INFINITY], &[false], false);
    }
}
