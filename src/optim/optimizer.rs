//! An optimizer with its state on a device, applied to parameters in place.

use std::collections::BTreeMap;

use tch::{Device, Kind, Tensor};

use super::OptimizerDef;
use super::error::OptimError;
use super::in_backward::forget_gradients;
use super::layout::{ParamShape, Slot};
use super::loss_scale::LossScale;
use super::parts::OwnPart;
use super::reduction::Reduction;
use super::update::{Clock, ParamState, Prepared, Updated, apply};
use super::watch::Watch;
use crate::nn::{Params, Shard, kind};

/// A parameter and its gradient.
pub struct Gradient<'a> {
    /// The parameter's name, as given to [`Optimizer::new`].
    pub name: &'a str,
    /// The parameter, updated in place.
    pub param: &'a Tensor,
    /// Its gradient, whose memory is used as scratch space; an undefined tensor means zero.
    pub grad: &'a Tensor,
}

/// The treatment of gradients before an update.
#[derive(Clone, Copy, Debug, Default)]
pub struct Incoming<'a> {
    /// Their sums over processes.
    pub reduction: Option<&'a Reduction>,
    /// The scale of their loss, by whose inverse they are multiplied.
    pub loss_scale: Option<&'a LossScale>,
}

/// Handles of an optimizer's states.
#[derive(Debug)]
pub struct OptimizerHandles(BTreeMap<String, ParamState>);

/// Updates parameters and owns the necessary state.
#[derive(Debug)]
pub struct Optimizer {
    def: OptimizerDef,
    pub(super) states: BTreeMap<String, ParamState>,
    /// Parameter and slot of each array, by T5X's name for it.
    places: BTreeMap<String, (String, usize)>,
    /// Number of updates, which optax counts separately from the step.
    count: i64,
    /// The factors of the gradients of some parameters.
    pub(super) factors: BTreeMap<String, f64>,
}

impl Optimizer {
    /// Creates an optimizer with the state at the start of training.
    ///
    /// # Errors
    /// A parameter that the spec's rules do not cover, or transformations that are not supported.
    pub fn new(
        def: &OptimizerDef,
        params: &[ParamShape<'_>],
        device: Device,
    ) -> Result<Self, OptimError> {
        let whole = |param: &ParamShape<'_>| OwnPart::whole(param.shape);
        Self::of_parts(def, params, &whole, device)
    }

    /// Creates an optimizer for the parts of parameters that this process updates.
    ///
    /// # Errors
    /// As [`Optimizer::new`].
    pub fn of_parts(
        def: &OptimizerDef,
        params: &[ParamShape<'_>],
        part: &dyn Fn(&ParamShape<'_>) -> OwnPart,
        device: Device,
    ) -> Result<Self, OptimError> {
        let (mut states, mut places) = (BTreeMap::new(), BTreeMap::new());
        for param in params {
            let (layout, part) = (def.layout(*param)?, part(param));
            for (index, slot) in layout.slots.iter().enumerate() {
                places.insert(def.path(param.name, slot.name), (param.name.to_string(), index));
            }
            let array = |slot: &Slot| {
                let shape = slot_shard(slot, &part).shape();
                Tensor::full(sizes(&shape), slot.initial, (kind(slot.dtype), device))
            };
            let arrays = layout.slots.iter().map(array).collect();
            states.insert(param.name.to_string(), ParamState { layout, arrays, part });
        }
        Ok(Self { def: def.clone(), states, places, count: 0, factors: BTreeMap::new() })
    }

    /// Lets [`Optimizer::update`] multiply the gradients of parameters with such names, before anything else.
    pub fn multiply_gradients(&mut self, factor: f64, has_factor: &dyn Fn(&str) -> bool) {
        let names = self.states.keys().filter(|name| has_factor(name));
        self.factors = names.map(|name| (name.clone(), factor)).collect();
    }

    /// Makes update number `step` (the first is 0). The gradients are meaningless afterwards.
    ///
    /// # Errors
    /// An unknown parameter, or a step before the optimizer's `step_offset`; then nothing is changed.
    pub fn apply(
        &mut self,
        gradients: &[Gradient<'_>],
        learning_rate: f32,
        step: i64,
    ) -> Result<(), OptimError> {
        let are_divided = self.states.values().any(|state| !state.part.peers().are_alone());
        assert!(!are_divided, "parts of parameters are updated by `update`");
        if let Some(unknown) = gradients.iter().find(|g| !self.states.contains_key(g.name)) {
            return Err(OptimError::UnknownParam { name: unknown.name.to_string() });
        }
        let update = self.prepare(learning_rate, step)?;
        tch::no_grad(|| {
            let given = gradients.iter().map(|g| (g.name, (g.param.shallow_clone(), scratch(g))));
            let mut given: BTreeMap<&str, (Tensor, Tensor)> = given.collect();
            let states = self.states.iter_mut().filter_map(|(name, state)| {
                let (param, grad) = given.remove(&name[..])?;
                Some(Updated { name, param, grad, state, beside: None })
            });
            apply(&*update, states.collect());
        });
        self.count += 1;
        Ok(())
    }

    /// Makes update number `step` (the first is 0) with the gradients that `backward` adds to those
    /// that `params` hold. Afterwards they hold none. If updates do not depend on each other, each
    /// parameter is updated as soon as `backward` has completed its gradient, which is then freed.
    /// `watch` measures it. `incoming` says what comes first. Returns whether the update is made: with a scale of the loss, a
    /// gradient that is not finite, in any process, leaves parameters and state as they are.
    ///
    /// # Errors
    /// A step before the optimizer's `step_offset`; then nothing is changed. Another process is lost.
    ///
    /// # Panics
    /// If `backward` panics; then parameters and state must not be used any more.
    pub fn update(
        &mut self,
        params: &Params,
        learning_rate: f32,
        step: i64,
        watch: &mut Watch,
        incoming: Incoming<'_>,
        backward: impl FnOnce(),
    ) -> Result<bool, OptimError> {
        let mut update = self.prepare(learning_rate, step)?;
        let device = params.iter().next().map(|(_, param)| param.device());
        if let (Some(rates), Some(device)) = (update.rates(), device) {
            // Now the device has little to do: later the host would wait for all of the backward pass.
            update.read_from(Tensor::from_slice(&rates).to_device(device));
        }
        let is_made = self.make(update, params, watch, incoming, backward)?;
        self.count += i64::from(is_made);
        Ok(is_made)
    }

    /// Returns the values in which this update differs from others, if [`Optimizer::update_from`] can read them from a tensor.
    ///
    /// # Errors
    /// As [`Optimizer::update`].
    pub fn rates(&self, learning_rate: f32, step: i64) -> Result<Option<Vec<f32>>, OptimError> {
        Ok(self.prepare(learning_rate, step)?.rates())
    }

    /// Makes an update as [`Optimizer::update`] does that reads [`Optimizer::rates`] from a tensor on the parameters' device, so
    /// that it can be recorded and made again. It is not counted: call [`Optimizer::count_update`] for each time.
    ///
    /// # Errors
    /// As [`Optimizer::update`].
    ///
    /// # Panics
    /// If `backward` panics, or the update depends on other values; then [`Optimizer::put_back`] undoes it, if
    /// the device has done nothing.
    pub fn update_from(
        &mut self,
        rates: &Tensor,
        params: &Params,
        watch: &mut Watch,
        backward: impl FnOnce(),
    ) -> Result<bool, OptimError> {
        // The host's time is not that of the update.
        let mut update = self.prepare(f32::NAN, i64::from(i32::MAX))?;
        update.read_from(rates.shallow_clone());
        self.make(update, params, watch, Incoming::default(), backward)
    }

    /// Counts an update of [`Optimizer::update_from`].
    pub fn count_update(&mut self) {
        self.count += 1;
    }

    /// Returns other handles of the states, for [`Optimizer::put_back`].
    pub fn handles(&self) -> OptimizerHandles {
        let handle = |(name, state): (&String, &ParamState)| (name.clone(), state.shallow_clone());
        OptimizerHandles(self.states.iter().map(handle).collect())
    }

    /// Restores the states that an update which panicked has lost, and takes its hooks and gradients from the parameters.
    pub fn put_back(&mut self, handles: OptimizerHandles, params: &Params) {
        self.states = handles.0;
        forget_gradients(params);
    }

    fn make(
        &mut self,
        update: Box<dyn Prepared>,
        params: &Params,
        watch: &mut Watch,
        incoming: Incoming<'_>,
        backward: impl FnOnce(),
    ) -> Result<bool, OptimError> {
        let are_divided = self.states.values().any(|state| !state.part.peers().are_alone());
        let waits = self.def.waits_for_all(are_divided) || incoming.loss_scale.is_some();
        let applied = self.apply_in(backward, params, (update, waits), watch, incoming);
        applied.map_err(OptimError::Lost)
    }

    fn prepare(&self, learning_rate: f32, step: i64) -> Result<Box<dyn Prepared>, OptimError> {
        self.def.spec().prepare(&Clock { learning_rate, step, count: self.count })
    }

    /// Returns the state under T5X's names below `param_states/`, sorted. The tensors are not
    /// copies: copy those that must survive the next update.
    pub fn arrays(&self) -> impl Iterator<Item = (String, &Tensor)> {
        self.parts().map(|(path, tensor, _)| (path, tensor))
    }

    /// Returns the same, and the part of each array that is here.
    pub fn parts(&self) -> impl Iterator<Item = (String, &Tensor, Shard)> {
        self.places.iter().map(|(path, (param, slot))| {
            let ParamState { layout, arrays, part } = &self.states[param];
            (path.clone(), &arrays[*slot], slot_shard(&layout.slots[*slot], part))
        })
    }

    /// Returns T5X's names below `param_states/` under which it saves None, sorted.
    pub fn nones(&self) -> impl Iterator<Item = String> {
        self.states.keys().filter_map(|param| self.def.none_path(param))
    }

    /// Returns the number of updates, and T5X's names for it below `param_states/`; T5X's own
    /// optimizers have none.
    pub fn counts(&self) -> (i64, Vec<String>) {
        (self.count, self.def.count_paths())
    }

    /// Continues after that number of updates.
    pub fn restore_count(&mut self, count: i64) {
        self.count = count;
    }

    /// Sets an array, or this process's part of it, by T5X's name from the whole of any kind and device.
    ///
    /// # Errors
    /// An unknown path, or a shape that does not fit this configuration.
    pub fn restore(&mut self, path: &str, array: &Tensor) -> Result<(), OptimError> {
        let unknown = || OptimError::UnknownParam { name: path.to_string() };
        let (name, index) = self.places.get(path).ok_or_else(unknown)?;
        let state = self.states.get_mut(name).expect("places are of states");
        let slot = &state.layout.slots[*index];
        let expected = &slot.shape;
        if array.size() != sizes(expected) {
            return Err(OptimError::Shape {
                name: path.to_string(),
                found: array.size().iter().map(|&size| size as usize).collect(),
                expected: expected.clone(),
            });
        }
        let own = slot_shard(slot, &state.part).of(array);
        tch::no_grad(|| state.arrays[*index].copy_(&own));
        Ok(())
    }
}

/// Returns the gradient as float32 for writing: in its own memory if that is contiguous.
pub(super) fn scratch(gradient: &Gradient<'_>) -> Tensor {
    match gradient.grad.defined() {
        true => gradient.grad.to_kind(Kind::Float).contiguous(),
        false => gradient.param.zeros_like(),
    }
}

/// Returns the part of an array of the state that belongs to a part of its parameter.
fn slot_shard(slot: &Slot, part: &OwnPart) -> Shard {
    match &slot.dims {
        None => Shard::whole(&slot.shape),
        Some(dims) => part.shard().of_dims(dims),
    }
}

fn sizes(shape: &[usize]) -> Vec<i64> {
    shape.iter().map(|&size| size as i64).collect()
}
