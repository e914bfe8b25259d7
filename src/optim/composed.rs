//! Updates made of others: after limits of gradients, and for chosen parameters.

use tch::Tensor;

use super::chain::{Chain, Transformation};
use super::clipped::Clipped;
use super::error::OptimError;
use super::multi::{MultiOptimizer, ParamFilter};
use super::refused::Refused;
use super::update::{Clipping, Clock, ParamState, Prepare, Prepared, Updated, after_clips};

impl Prepare for Chain {
    fn prepare(&self, clock: &Clock) -> Result<Box<dyn Prepared>, OptimError> {
        let clip = |transformation: &Transformation| match transformation {
            Transformation::Clip(clip) => Some(Clipping::Elements(clip.max_delta)),
            Transformation::ClipByGlobalNorm(clip) => Some(Clipping::GlobalNorm(clip.max_norm)),
            Transformation::Rule(_) => None,
        };
        let clips = self.transformations.iter().filter_map(clip).collect();
        Ok(after_clips(clips, self.rule()?.prepare(clock)?))
    }
}

impl Prepare for Clipped {
    fn prepare(&self, clock: &Clock) -> Result<Box<dyn Prepared>, OptimError> {
        let clip = self.norm.map(Clipping::TorchNorm).or(self.value.map(Clipping::Elements));
        Ok(after_clips(clip.into_iter().collect(), self.rule().prepare(clock)?))
    }
}

impl Prepare for MultiOptimizer {
    fn prepare(&self, clock: &Clock) -> Result<Box<dyn Prepared>, OptimError> {
        let updates = self.optimizers().map(|optimizer| optimizer.prepare(clock));
        let updates = updates.collect::<Result<Vec<_>, _>>()?;
        Ok(Box::new(Shared { parts: self.filters()?.into_iter().zip(updates).collect() }))
    }
}

/// An update of which each part reaches the parameters that its filter chooses.
#[derive(Debug)]
struct Shared {
    parts: Vec<(ParamFilter, Box<dyn Prepared>)>,
}

impl Prepared for Shared {
    fn rates(&self) -> Option<Vec<f32>> {
        let of_parts = self.parts.iter().map(|(_, update)| update.rates());
        of_parts.collect::<Option<Vec<_>>>().map(|rates| rates.concat())
    }

    fn read_from(&mut self, rates: Tensor) {
        let mut start = 0;
        for (_, update) in &mut self.parts {
            let count = update.rates().map_or(0, |rates| rates.len() as i64);
            update.read_from(rates.narrow(0, start, count));
            start += count;
        }
    }

    fn is_fused(&self, name: &str, param: &Tensor, state: &ParamState) -> bool {
        let update = self.parts.iter().find(|(filter, _)| filter.chooses(name));
        update.is_some_and(|(_, update)| update.is_fused(name, param, state))
    }

    fn apply(&self, mut updated: Vec<Updated<'_>>) {
        for (filter, update) in &self.parts {
            let is_chosen = |given: &Updated<'_>| filter.chooses(given.name);
            let (chosen, rest): (Vec<_>, Vec<_>) = updated.into_iter().partition(is_chosen);
            if !chosen.is_empty() {
                update.apply(chosen);
            }
            updated = rest;
        }
    }
}

impl Prepare for Refused {
    fn prepare(&self, _: &Clock) -> Result<Box<dyn Prepared>, OptimError> {
        Err(self.error())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gin::Nested;
    use crate::optim::{
        Gradient, LearningRate, OptaxRule, Optimizer, OptimizerDef, ParamShape, Sgd,
    };

    /// Updates zeros once by plain descent at a rate of 1, with gradients 3 and 4 after a limit.
    fn check(norm: Option<f64>, value: Option<f64>, expected: [f32; 2]) {
        let rule = OptaxRule::from(Sgd {
            learning_rate: LearningRate::Constant(1.0),
            momentum: None,
            nesterov: false,
            accumulator_dtype: None,
        });
        let optimizer = Nested(Box::new(OptimizerDef::from(rule)));
        let def = OptimizerDef::from(Clipped { optimizer, norm, value });
        let shapes = ["a", "b"].map(|name| ParamShape { name, shape: &[1], axes: &[] });
        let mut optimizer = Optimizer::new(&def, &shapes, tch::Device::Cpu).unwrap();
        let params = [0.0_f32; 2].map(|zero| Tensor::from_slice(&[zero]));
        let grads = [3.0_f32, 4.0].map(|grad| Tensor::from_slice(&[grad]));
        let given = [("a", 0), ("b", 1)].map(|(name, i)| Gradient {
            name,
            param: &params[i],
            grad: &grads[i],
        });
        optimizer.apply(&given, 0.0, 0).unwrap();
        let found = params.map(|param| -param.double_value(&[0]) as f32);
        let is_near = |(a, b): (&f32, &f32)| (a - b).abs() <= 2e-7 * b;
        assert!(found.iter().zip(&expected).all(is_near), "{found:?} is not {expected:?}");
    }

    #[test]
    fn any_optimizer_has_its_gradients_limited_as_torch_limits_them() {
        // A norm of 5 is divided as 5.000001.
        check(Some(1.0), None, [3.0 / 5.000001, 4.0 / 5.000001]);
        check(Some(6.0), None, [3.0, 4.0]);
        check(None, Some(3.5), [3.0, 3.5]);
    }
}
