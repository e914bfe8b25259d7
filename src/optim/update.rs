//! The contract of one update of any optimizer, and the limits that may come before it.

use std::fmt::Debug;

use tch::Tensor;

use super::error::OptimError;
use super::layout::StateLayout;
use super::norms::clip_global_norm;
use super::parts::OwnPart;
use crate::nn::CopiedColumns;
use crate::nn::profiler::{Activity, part};

/// The update that is prepared.
#[derive(Debug)]
pub struct Clock {
    /// The Trainer's learning rate.
    pub learning_rate: f32,
    /// The number of the run's step.
    pub step: i64,
    /// The number of updates of this optimizer before.
    pub count: i64,
}

/// An optimizer's steps on tensors.
pub trait Prepare {
    /// Computes the values that all parameters share in one update.
    ///
    /// # Errors
    /// Settings without a value at this step; then nothing is changed.
    fn prepare(&self, clock: &Clock) -> Result<Box<dyn Prepared>, OptimError>;
}

/// One update, with the values that all parameters share.
pub trait Prepared: Debug + Send {
    /// Returns the values in which updates of different steps differ, if [`Prepared::read_from`] can take them from elsewhere.
    fn rates(&self) -> Option<Vec<f32>> {
        None
    }

    /// Lets the update read these values from a tensor, float32 on the parameters' device. A learning rate that is NaN means that they
    /// are not known to the host, since the work is recorded and done again for later steps; then an update that depends on
    /// other values panics.
    fn read_from(&mut self, _rates: Tensor) {}

    /// Whether the update of this parameter, which has that state, is a kernel's that does [`Beside`] too, and reads the
    /// gradient of a copy.
    fn is_fused(&self, _name: &str, _param: &Tensor, _state: &ParamState) -> bool {
        false
    }

    /// Updates parameters and their states with their gradients, whose memory is consumed.
    fn apply(&self, updated: Vec<Updated<'_>>);
}

/// The work beside an update that a kernel does in the same passes over memory.
#[derive(Debug)]
pub struct Beside {
    /// Takes the sum of the gradient's squares: float32 `[1]`.
    pub squares: Tensor,
    /// The copy of the parameter, to be written, if it has one.
    pub copy: Option<CopiedColumns>,
}

/// A parameter with its gradient and its state.
pub struct Updated<'a> {
    /// The parameter's name, as its layout was asked for.
    pub name: &'a str,
    /// The parameter, to be changed in place.
    pub param: Tensor,
    /// Its gradient, whose memory may serve for anything: float32 and contiguous. In an update that [is
    /// fused](Prepared::is_fused) it may be that of the copy, in bfloat16 and with rows apart.
    pub grad: Tensor,
    /// Its state, to be changed in place.
    pub state: &'a mut ParamState,
    /// The work that a fused update does too.
    pub beside: Option<Beside>,
}

/// The state of one parameter.
#[derive(Debug)]
pub struct ParamState {
    /// The layout of the arrays.
    pub layout: StateLayout,
    /// The arrays, in the order of the layout's slots.
    pub arrays: Vec<Tensor>,
    /// The part of the parameter that they belong to.
    pub part: OwnPart,
}

impl ParamState {
    /// Another handle of the same arrays.
    pub fn shallow_clone(&self) -> Self {
        Self {
            layout: self.layout.clone(),
            arrays: self.arrays.iter().map(Tensor::shallow_clone).collect(),
            part: self.part.clone(),
        }
    }
}

/// Applies a prepared update, as a part of the step that the profiler measures.
pub(super) fn apply(update: &dyn Prepared, updated: Vec<Updated<'_>>) {
    let _part = part(Activity::Optimizer);
    update.apply(updated);
}

/// The addend of the norm by which torch divides.
const TORCH_ADDEND: f64 = 1e-6;

/// A limit of gradients.
#[derive(Clone, Copy, Debug)]
pub(super) enum Clipping {
    Elements(f64),
    GlobalNorm(f64),
    /// The same as torch computes it.
    TorchNorm(f64),
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
    fn rates(&self) -> Option<Vec<f32>> {
        self.then.rates()
    }

    fn read_from(&mut self, rates: Tensor) {
        self.then.read_from(rates);
    }

    fn apply(&self, updated: Vec<Updated<'_>>) {
        let grads: Vec<_> = updated.iter().map(|given| (&given.grad, &given.state.part)).collect();
        self.clips.iter().for_each(|clip| clip.apply(&grads));
        self.then.apply(updated);
    }
}

impl Clipping {
    fn apply(self, grads: &[(&Tensor, &OwnPart)]) {
        match self {
            Clipping::Elements(limit) => {
                for (grad, _) in grads {
                    let _ = grad.shallow_clone().clamp_(-limit, limit);
                }
            }
            Clipping::GlobalNorm(threshold) => clip_global_norm(grads, threshold, 0.0),
            Clipping::TorchNorm(threshold) => clip_global_norm(grads, threshold, TORCH_ADDEND),
        }
    }
}
