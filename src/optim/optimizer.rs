//! An optimizer at work: its state on a device, applied to parameters in place.

use std::collections::BTreeMap;

use tch::{Device, Kind, Tensor};

use super::adafactor;
use super::spec::{OptimError, OptimizerDef, ParamShape, StateLayout};

/// A parameter and its gradient.
pub struct Gradient<'a> {
    /// The parameter's name, as given to [`Optimizer::new`].
    pub name: &'a str,
    /// The parameter, updated in place.
    pub param: &'a Tensor,
    /// Its gradient, whose memory is used as scratch space; undefined stands for zero.
    pub grad: &'a Tensor,
}

/// Updates parameters and owns the state that this takes.
#[derive(Debug)]
pub struct Optimizer {
    def: OptimizerDef,
    states: BTreeMap<String, ParamState>,
}

/// The state of one parameter.
#[derive(Debug)]
pub(super) struct ParamState {
    /// What the arrays are.
    pub(super) layout: StateLayout,
    /// Float32, in the order of the layout's slots.
    pub(super) arrays: Vec<Tensor>,
}

impl Optimizer {
    /// An optimizer with the zero state that training starts from.
    ///
    /// # Errors
    /// A parameter that the spec's rules do not cover.
    pub fn new(
        def: &OptimizerDef,
        params: &[ParamShape<'_>],
        device: Device,
    ) -> Result<Self, OptimError> {
        let state = |param: &ParamShape<'_>| {
            let layout = def.layout(*param)?;
            let zeros = |shape: &[usize]| Tensor::zeros(sizes(shape), (Kind::Float, device));
            let arrays = layout.slots.iter().map(|slot| zeros(&slot.shape)).collect();
            Ok((param.name.to_string(), ParamState { layout, arrays }))
        };
        let states = params.iter().map(state).collect::<Result<_, _>>()?;
        Ok(Self { def: def.clone(), states })
    }

    /// Makes update number `step` (the first is 0). The gradients hold no meaning afterwards.
    ///
    /// # Errors
    /// An unknown parameter, or a step before the optimizer's `step_offset`; nothing is changed then.
    pub fn apply(
        &mut self,
        gradients: &[Gradient<'_>],
        learning_rate: f32,
        step: i64,
    ) -> Result<(), OptimError> {
        if let Some(unknown) = gradients.iter().find(|g| !self.states.contains_key(g.name)) {
            return Err(OptimError::UnknownParam { name: unknown.name.to_string() });
        }
        let OptimizerDef::Adafactor(spec) = &self.def;
        let update = adafactor::Update::new(spec, learning_rate, step)?;
        tch::no_grad(|| {
            let grads: Vec<Tensor> = gradients.iter().map(scratch).collect();
            update.clip_global_norm(&grads);
            for (gradient, grad) in gradients.iter().zip(grads) {
                let state = self.states.get_mut(gradient.name).expect("checked above");
                update.apply(gradient.param, grad, state);
            }
        });
        Ok(())
    }

    /// The state as `{param}/{slot}`, sorted by parameter. The tensors are the live ones: copy what
    /// must survive the next update.
    pub fn arrays(&self) -> impl Iterator<Item = (String, &Tensor)> {
        self.states.iter().flat_map(|(name, state)| {
            let slots = state.layout.slots.iter().zip(&state.arrays);
            slots.map(move |(slot, array)| (format!("{name}/{}", slot.name), array))
        })
    }

    /// Sets the array `{param}/{slot}` from any kind and device.
    ///
    /// # Errors
    /// An unknown path, or a shape that is not this configuration's.
    pub fn restore(&mut self, path: &str, array: &Tensor) -> Result<(), OptimError> {
        let unknown = || OptimError::UnknownParam { name: path.to_string() };
        let (name, slot) = path.rsplit_once('/').ok_or_else(unknown)?;
        let state = self.states.get_mut(name).ok_or_else(unknown)?;
        let slots = &state.layout.slots;
        let index = slots.iter().position(|s| s.name == slot).ok_or_else(unknown)?;
        let expected = &slots[index].shape;
        if array.size() != sizes(expected) {
            return Err(OptimError::Shape {
                name: path.to_string(),
                found: array.size().iter().map(|&size| size as usize).collect(),
                expected: expected.clone(),
            });
        }
        tch::no_grad(|| state.arrays[index].copy_(array));
        Ok(())
    }
}

/// The gradient as float32 that may be written to: its own memory where that is laid out plainly.
fn scratch(gradient: &Gradient<'_>) -> Tensor {
    match gradient.grad.defined() {
        true => gradient.grad.to_kind(Kind::Float).contiguous(),
        false => gradient.param.zeros_like(),
    }
}

fn sizes(shape: &[usize]) -> Vec<i64> {
    shape.iter().map(|&size| size as i64).collect()
}
