//! One update of any optimizer.

use std::fmt::Debug;

use tch::Tensor;

use super::chain::{Chain, Transformation};
use super::error::OptimError;
use super::multi::{MultiOptimizer, ParamFilter};
use super::norms::clip_global_norm;
use super::optimizer::ParamState;
use super::refused::Refused;
use crate::nn::profiler::{Activity, part};

/// The update that is prepared.
#[derive(Debug)]
pub(super) struct Clock {
    /// The Trainer's learning rate.
    pub(super) learning_rate: f32,
    /// The number of the run's step.
    pub(super) step: i64,
    /// The number of updates of this optimizer before.
    pub(super) count: i64,
}

/// An optimizer's steps on tensors.
pub(super) trait Prepare {
    /// Computes the values that all parameters share in one update.
    fn prepare(&self, clock: &Clock) -> Result<Box<dyn Prepared>, OptimError>;
}

/// One update, with the values that all parameters share.
pub(super) trait Prepared: Debug + Send {
    /// Updates parameters and their states with their gradients, whose memory is consumed.
    fn apply(&self, updated: Vec<Updated<'_>>);
}

/// A parameter with its gradient in float32 and its state.
pub(super) struct Updated<'a> {
    pub(super) name: &'a str,
    pub(super) param: Tensor,
    pub(super) grad: Tensor,
    pub(super) state: &'a mut ParamState,
}

/// Applies a prepared update, as a part of the step that the profiler measures.
pub(super) fn apply(update: &dyn Prepared, updated: Vec<Updated<'_>>) {
    let _part = part(Activity::Optimizer);
    update.apply(updated);
}

/// A limit of gradients.
#[derive(Clone, Copy, Debug)]
pub(super) enum Clipping {
    Elements(f64),
    GlobalNorm(f64),
}

/// Returns an update that limits gradients first, in that order.
pub(super) fn after_clips(clips: Vec<Clipping>, then: Box<dyn Prepared>) -> Box<dyn Prepared> {
    if clips.is_empty() { then } else { Box::new(Clipped { clips, then }) }
}

#[derive(Debug)]
struct Clipped {
    clips: Vec<Clipping>,
    then: Box<dyn Prepared>,
}

impl Prepared for Clipped {
    fn apply(&self, updated: Vec<Updated<'_>>) {
        let grads: Vec<Tensor> = updated.iter().map(|given| given.grad.shallow_clone()).collect();
        self.clips.iter().for_each(|clip| clip.apply(&grads));
        self.then.apply(updated);
    }
}

impl Clipping {
    fn apply(self, grads: &[Tensor]) {
        match self {
            Clipping::Elements(limit) => {
                for grad in grads {
                    let _ = grad.shallow_clone().clamp_(-limit, limit);
                }
            }
            Clipping::GlobalNorm(threshold) => clip_global_norm(grads, threshold),
        }
    }
}

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
