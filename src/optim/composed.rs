//! Updates made of others: after clips, and for chosen parameters.

use super::chain::{Chain, Transformation};
use super::error::OptimError;
use super::multi::{MultiOptimizer, ParamFilter};
use super::refused::Refused;
use super::update::{Clipping, Clock, Prepare, Prepared, Updated, after_clips};

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
