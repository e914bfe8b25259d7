//! Updates inside a backward pass: each parameter is updated as soon as its gradient is complete, in
//! this process and in the others of the run. The gradient is then freed, so that gradients of few
//! layers are in memory at once. An update that depends on all gradients comes after the pass.

use std::collections::{BTreeMap, BTreeSet};
use std::mem;
use std::sync::{Arc, Mutex, PoisonError};

use tch::Tensor;

use super::loss_scale::LossScale;
use super::optimizer::{Gradient, Incoming, Optimizer, scratch};
use super::reduction::{Buckets, Completed};
use super::update::{ParamState, Prepared, Updated, apply};
use super::watch::Watch;
use super::zero1::Zero1Exchange;
use crate::nn::C10dError;
use crate::nn::Params;
use crate::nn::autograd::{no_hook_on_gradient, on_gradient, take_gradient};

/// An update in progress.
struct Pending {
    update: Box<dyn Prepared>,
    watch: Watch,
    states: BTreeMap<String, ParamState>,
    /// States of parameters that have been updated.
    done: BTreeMap<String, ParamState>,
    /// Gradients that wait for all others, if the update depends on them.
    held: Option<Vec<Completed>>,
    /// `None` for one process alone.
    exchange: Option<GradientExchange>,
    /// The factors of some gradients.
    factors: BTreeMap<String, f64>,
    loss_scale: Option<LossScale>,
    /// Whether gradients were finite, if the update depends on that.
    is_made: bool,
    /// Parameters whose gradients were taken.
    taken: BTreeSet<String>,
    lost: Option<C10dError>,
}

/// Gradients and updates on their way between processes.
struct GradientExchange {
    /// Those of parameters that each process updates as it holds them.
    buckets: Buckets,
    /// Those of parameters of which each process updates a part.
    spreading: Zero1Exchange,
}

impl Pending {
    /// Takes the gradient of a parameter.
    fn complete(&mut self, name: &str, param: &Tensor) {
        // The gradient of a second pass over the parameter stays.
        if self.lost.is_some() || !self.taken.insert(name.to_string()) {
            return;
        }
        let grad = take_gradient(param);
        tch::no_grad(|| {
            let mut grad = scratch(&Gradient { name, param, grad: &grad });
            let factor = self.factors.get(name).copied().unwrap_or(1.0);
            let scale = self.loss_scale.as_ref().map_or(1.0, |of| of.scale);
            if factor != scale {
                let _ = grad.g_mul_scalar_(factor / scale);
            }
            let own = Completed { name: name.to_string(), param: param.shallow_clone(), grad };
            let part = &self.states[name].part;
            let summed = match (&mut self.exchange, part.portion(&own.grad)) {
                (Some(exchange), Some(portion)) => Ok(exchange.spreading.add(own, portion)),
                (Some(exchange), None) if !part.is_summed() => exchange.buckets.add(own),
                _ => Ok(vec![own]),
            };
            self.use_up(summed);
        });
    }

    fn use_up(&mut self, summed: Result<Vec<Completed>, C10dError>) {
        match (summed, &mut self.held) {
            (Err(error), _) => self.lost = Some(error),
            (Ok(summed), Some(held)) => held.extend(summed),
            (Ok(summed), None) => summed.into_iter().for_each(|one| self.apply(vec![one])),
        }
    }

    fn finish(&mut self) {
        if let Some(exchange) = self.exchange.as_mut().filter(|_| self.lost.is_none()) {
            let (summed, parts) = (exchange.buckets.finish(), exchange.spreading.finish());
            self.use_up(summed);
            self.use_up(Ok(parts));
        }
        if let Some(mut held) = self.held.take().filter(|_| self.lost.is_none()) {
            held.sort_by(|a, b| a.name.cmp(&b.name));
            let grads = held.iter().map(|one| &one.grad);
            self.is_made = self.loss_scale.as_ref().is_none_or(|scale| scale.are_finite(grads));
            if self.is_made {
                self.apply(held);
            }
        }
        if let Some(exchange) = &mut self.exchange {
            exchange.spreading.settle();
        }
    }

    fn apply(&mut self, completed: Vec<Completed>) {
        let (mut olds, mut states, mut params) = (Vec::new(), Vec::new(), Vec::new());
        for Completed { name, param, grad } in &completed {
            let state = self.states.remove(name).expect("a gradient is complete once");
            let param = state.part.of(param);
            olds.push(self.watch.before(name, &param, grad, &state.part));
            params.push(param);
            states.push(state);
        }
        let given = completed.iter().zip(&params).zip(&mut states);
        let given = given.map(|((one, param), state)| Updated {
            name: &one.name,
            param: param.shallow_clone(),
            grad: one.grad.shallow_clone(),
            state,
        });
        apply(&*self.update, given.collect());
        let updated = completed.iter().zip(params).zip(states).zip(olds);
        for (((Completed { name, param: whole, .. }, param), state), old) in updated {
            self.watch.after(name, &param, old, &state.part);
            if let (Some(exchange), Some(updated)) =
                (&mut self.exchange, state.part.portion(&param))
            {
                exchange.spreading.put_back(updated, whole.shallow_clone());
            }
            self.done.insert(name.clone(), state);
        }
    }
}

impl Optimizer {
    /// Applies `update` while `backward` runs; to parameters that `backward` does not reach,
    /// afterwards. Returns whether it was applied.
    ///
    /// # Errors
    /// Another process is lost; then parameters and state must not be used any more.
    pub(super) fn apply_in(
        &mut self,
        backward: impl FnOnce(),
        params: &Params,
        (update, waits): (Box<dyn Prepared>, bool),
        watch: &mut Watch,
        Incoming { reduction, loss_scale }: Incoming<'_>,
    ) -> Result<bool, C10dError> {
        let pending = Arc::new(Mutex::new(Pending {
            update,
            watch: mem::take(watch),
            states: mem::take(&mut self.states),
            done: BTreeMap::new(),
            held: waits.then(Vec::new),
            exchange: reduction.map(|reduction| GradientExchange {
                buckets: Buckets::new(reduction),
                spreading: Zero1Exchange::new(&reduction.axis),
            }),
            factors: self.factors.clone(),
            loss_scale: loss_scale.cloned(),
            is_made: true,
            taken: BTreeSet::new(),
            lost: None,
        }));
        for (name, param) in trained(params) {
            let (pending, name) = (Arc::clone(&pending), name.to_string());
            on_gradient(param, move |leaf| {
                pending.lock().unwrap_or_else(PoisonError::into_inner).complete(&name, leaf);
            });
        }
        backward();
        trained(params).for_each(|(_, param)| no_hook_on_gradient(param));
        let pending = Arc::into_inner(pending).expect("the hooks are gone");
        let mut pending = pending.into_inner().unwrap_or_else(PoisonError::into_inner);
        trained(params).for_each(|(name, param)| pending.complete(name, param));
        tch::no_grad(|| pending.finish());
        self.states = mem::take(&mut pending.done);
        self.states.append(&mut pending.states);
        *watch = pending.watch;
        pending.lost.map_or(Ok(pending.is_made), Err)
    }
}

/// Removes hooks and gradients that an update which panicked has left at parameters.
pub(super) fn forget_gradients(params: &Params) {
    for (_, param) in trained(params) {
        no_hook_on_gradient(param);
        drop(take_gradient(param));
    }
}

/// Parameters that have gradients.
fn trained(params: &Params) -> impl Iterator<Item = (&str, &Tensor)> {
    params.iter().filter(|(_, param)| param.requires_grad())
}
