//! The scale of the loss of a network in float16 (Micikevicius et al. 2017, arXiv:1710.03740).

use crate::checkpoint::LossScaling;
use crate::gin::Configurable;

/// Multiplies the loss by a scale for the backward pass, and gradients by its inverse afterwards, so that float16 does not lose
/// small ones. A step with a gradient that is not finite makes no update: parameters, the optimizer's state and the schedule of the
/// learning rate stay as they are, and the scale is halved. After a number of updates in a row it is doubled. Checkpoints keep
/// it. Sources: torch `amp/grad_scaler.py`, and for the limits apex `amp/scaler.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "gimlet.LossScaler")]
pub struct LossScaler {
    /// The scale of the first step.
    #[gin(default = 65536.0)]
    pub initial: f64,
    /// The number of updates in a row after which the scale is doubled.
    #[gin(default = 2000)]
    pub growth_interval: u64,
    /// The scale does not fall below this. A step there whose loss is not finite ends the run.
    #[gin(default = 1.0)]
    pub minimum: f64,
    /// The scale does not rise above this: 2 to the power of 24.
    #[gin(default = 16777216.0)]
    pub maximum: f64,
}

impl Default for LossScaler {
    fn default() -> Self {
        Self { initial: 65536.0, growth_interval: 2000, minimum: 1.0, maximum: 16_777_216.0 }
    }
}

impl LossScaler {
    /// Finds values with which no step can be made.
    ///
    /// # Errors
    /// The first such value, with the expected ones.
    pub fn check(&self) -> Result<(), String> {
        let Self { initial, growth_interval, minimum, maximum } = self;
        match (minimum, initial, maximum) {
            _ if *growth_interval == 0 => {
                Err("gimlet.LossScaler.growth_interval is 0, expected at least 1".to_string())
            }
            (low, first, high) if 0.0 < *low && low <= first && first <= high => Ok(()),
            _ => Err(format!(
                "gimlet.LossScaler.initial is {initial:?}, expected a number from minimum, which is {minimum:?} and must be \
                 more than 0, to maximum, which is {maximum:?}"
            )),
        }
    }

    /// Returns the scale of the next step.
    pub fn scale(&self, state: &LossScaling) -> f64 {
        state.scale.unwrap_or(self.initial).clamp(self.minimum, self.maximum)
    }

    /// Takes up a step, which has made its update or left it out.
    pub fn see(&self, state: &mut LossScaling, is_updated: bool) {
        let scale = self.scale(state);
        let factor = match is_updated {
            false => {
                (state.updates, state.skipped) = (0, state.skipped + 1);
                0.5
            }
            true => {
                state.updates += 1;
                let grows = state.updates >= self.growth_interval;
                if grows {
                    state.updates = 0;
                }
                if grows { 2.0 } else { 1.0 }
            }
        };
        state.scale = Some((scale * factor).clamp(self.minimum, self.maximum));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overflows_halve_the_scale_and_updates_in_a_row_double_it_within_limits() {
        let scaler = LossScaler { growth_interval: 3, minimum: 8.0, maximum: 64.0, initial: 32.0 };
        let mut state = LossScaling::default();
        assert_eq!(scaler.scale(&state), 32.0);
        // Whether the step makes its update, and the scale of the next one.
        let steps = [
            (false, 16.0),
            (true, 16.0),
            (true, 16.0),
            (false, 8.0),
            (false, 8.0),
            (true, 8.0),
            (true, 8.0),
            (true, 16.0),
            (true, 16.0),
            (true, 16.0),
            (true, 32.0),
            (true, 32.0),
            (true, 32.0),
            (true, 64.0),
            (true, 64.0),
            (true, 64.0),
            (true, 64.0),
        ];
        for (index, (is_updated, expected)) in steps.into_iter().enumerate() {
            scaler.see(&mut state, is_updated);
            assert_eq!(scaler.scale(&state), expected, "step {index}");
        }
        assert_eq!(state.skipped, 3);
    }

    #[test]
    fn limits_that_contradict_each_other_are_refused() {
        let check = |change: &dyn Fn(&mut LossScaler), expected: &str| {
            let mut scaler = LossScaler::default();
            change(&mut scaler);
            let found = scaler.check().err().unwrap_or_default();
            assert!(found.contains(expected) && found.is_empty() == expected.is_empty(), "{found}");
        };
        check(&|_| {}, "");
        check(&|it| it.growth_interval = 0, "growth_interval is 0, expected at least 1");
        check(&|it| it.minimum = 0.0, "minimum, which is 0.0 and must be more than 0");
        check(&|it| it.initial = 1e9, "initial is 1000000000.0, expected a number from minimum");
        check(&|it| it.maximum = f64::NAN, "maximum, which is NaN");
    }
}
