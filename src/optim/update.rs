//! One update of any optimizer.

use tch::Tensor;

use super::norms::clip_global_norm;
use super::optax::Transformation;
use super::optimizer::ParamState;
use super::spec::{OptimError, OptimizerDef};
use super::{adafactor, adamw};
use crate::nn::profiler::{Activity, part};

/// The values that all parameters share in one update.
#[derive(Debug)]
pub(super) struct Update {
    clips: Vec<Clipping>,
    rule: Rule,
}

/// A limit of gradients.
#[derive(Debug)]
enum Clipping {
    Elements(f64),
    GlobalNorm(f64),
}

/// The conversion of gradients to updates.
#[derive(Debug)]
enum Rule {
    Adafactor(adafactor::Update),
    AdamW(adamw::Update),
}

impl Update {
    /// Prepares update number `step` of a run, which follows `count` others of this optimizer.
    pub(super) fn new(
        def: &OptimizerDef,
        learning_rate: f32,
        step: i64,
        count: i64,
    ) -> Result<Self, OptimError> {
        Ok(match def {
            OptimizerDef::Adafactor(spec) => Self {
                clips: spec.global_norm_threshold().map(Clipping::GlobalNorm).into_iter().collect(),
                rule: Rule::Adafactor(adafactor::Update::new(spec, learning_rate, step)?),
            },
            OptimizerDef::AdamW(spec) => {
                Self { clips: Vec::new(), rule: Rule::AdamW(adamw::Update::new(spec, count)?) }
            }
            OptimizerDef::Chain(chain) => Self {
                clips: chain.transformations.iter().filter_map(Clipping::of).collect(),
                rule: Rule::AdamW(adamw::Update::new(chain.adamw()?.adamw, count)?),
            },
        })
    }

    /// Updates parameters and their states with their gradients, whose memory is consumed.
    pub(super) fn apply(&self, updated: Vec<(Tensor, Tensor, &mut ParamState)>) {
        let _part = part(Activity::Optimizer);
        for clip in &self.clips {
            match clip {
                Clipping::Elements(limit) => {
                    for (_, grad, _) in &updated {
                        let _ = grad.shallow_clone().clamp_(-limit, *limit);
                    }
                }
                Clipping::GlobalNorm(threshold) => {
                    let grads = updated.iter().map(|(_, grad, _)| grad.shallow_clone());
                    clip_global_norm(&grads.collect::<Vec<_>>(), *threshold);
                }
            }
        }
        match &self.rule {
            Rule::Adafactor(rule) => {
                updated
                    .into_iter()
                    .for_each(|(param, grad, state)| rule.apply(&param, grad, state));
            }
            Rule::AdamW(rule) => rule.apply(updated),
        }
    }
}

impl Clipping {
    fn of(transformation: &Transformation) -> Option<Self> {
        match transformation {
            Transformation::Clip(clip) => Some(Self::Elements(clip.max_delta)),
            Transformation::ClipByGlobalNorm(clip) => Some(Self::GlobalNorm(clip.max_norm)),
            Transformation::AdamW(_) => None,
        }
    }
}
