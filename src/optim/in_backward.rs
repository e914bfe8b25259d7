//! Updates inside a backward pass: each parameter is updated as soon as its gradient is complete, in
//! this process and in the others of the run. The gradient is then freed, so that gradients of few
//! layers are in memory at once. An update that depends on all gradients comes after the pass.

use std::collections::{BTreeMap, BTreeSet};
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tch::{Kind, Tensor};

use super::loss_scale::LossScale;
use super::optimizer::{Gradient, Incoming, Optimizer, scratch};
use super::reduction::{Buckets, Completed};
use super::update::{Beside, ParamState, Prepared, Updated, apply};
use super::watch::Watch;
use super::zero1::Zero1Exchange;
use crate::nn::autograd::{no_hook_on_gradient, on_gradient, take_gradient};
use crate::nn::{
    C10dError, CopiedColumns, CopiedKernel, KernelCopy, Params, kernel_names, with_gradients,
};

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
    /// Parameters whose copies the update has written.
    written: BTreeSet<String>,
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
        self.complete_one(name, param, None);
    }

    /// Takes the gradients of the parameters of a copy.
    fn complete_copy(&mut self, kernels: &[CopiedKernel], gradient: &Tensor) {
        for (CopiedKernel { name, param, columns, .. }, own) in with_gradients(kernels, gradient) {
            self.complete_one(name, param, Some((columns, own)));
        }
    }

    /// Takes the gradient of a parameter, which is what the parameter holds and that of its copy.
    fn complete_one(
        &mut self,
        name: &str,
        param: &Tensor,
        copied: Option<(&CopiedColumns, Tensor)>,
    ) {
        // The gradient of a second pass over the parameter stays.
        if self.lost.is_some() || !self.taken.insert(name.to_string()) {
            return;
        }
        let held = take_gradient(param);
        tch::no_grad(|| {
            let factor = self.factors.get(name).copied().unwrap_or(1.0);
            let scale = self.loss_scale.as_ref().map_or(1.0, |of| of.scale);
            let state = &self.states[name];
            let mut grad = match &copied {
                Some((columns, of_copy)) if of_copy.defined() => {
                    let is_kept = self.exchange.is_none() && factor == scale && !held.defined();
                    match is_kept && self.update.is_fused(name, param, state) {
                        true => of_copy.shallow_clone(),
                        false if held.defined() => columns.widened(of_copy) + held,
                        false => columns.widened(of_copy),
                    }
                }
                _ => scratch(&Gradient { name, param, grad: &held }),
            };
            if factor != scale {
                let _ = grad.g_mul_scalar_(factor / scale);
            }
            let copy = copied.map(|(columns, _)| columns.shallow_clone());
            let param = param.shallow_clone();
            let own = Completed { name: name.to_string(), param, grad, copy };
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
        let all: Vec<BeforeUpdate> = completed.into_iter().map(|one| self.before(one)).collect();
        let mut states: Vec<ParamState> =
            all.iter().map(|one| self.taken_state(&one.name)).collect();
        let given = all.iter().zip(&mut states).map(|(one, state)| Updated {
            name: &one.name,
            param: one.param.shallow_clone(),
            grad: one.grad.shallow_clone(),
            state,
            beside: one.beside(),
        });
        apply(&*self.update, given.collect());
        for (one, state) in all.into_iter().zip(states) {
            self.after(one, state);
        }
    }

    fn taken_state(&mut self, name: &str) -> ParamState {
        self.states.remove(name).expect("a gradient is complete once")
    }

    fn before(&mut self, completed: Completed) -> BeforeUpdate {
        let Completed { name, param: whole, grad, copy } = completed;
        let state = &self.states[&name];
        let param = state.part.of(&whole);
        let is_fused = self.update.is_fused(&name, &param, state);
        let squares = is_fused.then(|| Tensor::empty([1], (Kind::Float, param.device())));
        if !is_fused {
            let flat = grad.flatten(0, -1);
            self.watch.gradient(&name, flat.dot(&flat), &state.part);
        }
        let old = self.watch.before(&param);
        BeforeUpdate { name, whole, param, grad, copy, squares, old }
    }

    fn after(&mut self, one: BeforeUpdate, state: ParamState) {
        let BeforeUpdate { name, whole, param, copy, squares, old, .. } = one;
        if let Some(squares) = squares {
            self.watch.gradient(&name, squares.view([0i64; 0]), &state.part);
            self.written.extend(copy.map(|_| name.clone()));
        }
        self.watch.after(&name, &param, old, &state.part);
        if let (Some(exchange), Some(updated)) = (&mut self.exchange, state.part.portion(&param)) {
            exchange.spreading.put_back(updated, whole);
        }
        self.done.insert(name, state);
    }
}

/// A parameter before its update.
struct BeforeUpdate {
    name: String,
    whole: Tensor,
    /// The part of it that this process updates.
    param: Tensor,
    grad: Tensor,
    copy: Option<CopiedColumns>,
    /// Takes the sum of the gradient's squares of an update that is fused.
    squares: Option<Tensor>,
    /// Its earlier value, if that is measured.
    old: Option<Tensor>,
}

impl BeforeUpdate {
    /// The work beside an update that is fused.
    fn beside(&self) -> Option<Beside> {
        let squares = self.squares.as_ref()?.shallow_clone();
        Some(Beside { squares, copy: self.copy.as_ref().map(CopiedColumns::shallow_clone) })
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
            written: BTreeSet::new(),
            lost: None,
        }));
        let copies = params.copies();
        for copy in &copies {
            let pending = Arc::clone(&pending);
            copy.on_gradient(move |kernels, gradient| {
                locked(&pending).complete_copy(kernels, &gradient);
            });
        }
        for (name, param) in trained(params, &copies) {
            let (pending, name) = (Arc::clone(&pending), name.to_string());
            on_gradient(param, move |leaf| locked(&pending).complete(&name, leaf));
        }
        backward();
        trained(params, &copies).for_each(|(_, param)| no_hook_on_gradient(param));
        let unseen: Vec<Tensor> = copies.iter().map(KernelCopy::no_hook).collect();
        let pending = Arc::into_inner(pending).expect("the hooks are gone");
        let mut pending = pending.into_inner().unwrap_or_else(PoisonError::into_inner);
        trained(params, &copies).for_each(|(name, param)| pending.complete(name, param));
        for (copy, gradient) in copies.iter().zip(&unseen) {
            pending.complete_copy(copy.kernels(), gradient);
        }
        tch::no_grad(|| pending.finish());
        self.states = mem::take(&mut pending.done);
        self.states.append(&mut pending.states);
        *watch = pending.watch;
        params.follow_update(&pending.written);
        if pending.lost.is_none() {
            let own = |kernel: &&CopiedKernel| take_gradient(&kernel.param).defined();
            let read_twice = copies.iter().flat_map(KernelCopy::kernels).find(own);
            assert!(read_twice.is_none(), "{read_twice:?} is read without its copy too");
        }
        pending.lost.map_or(Ok(pending.is_made), Err)
    }
}

/// Removes hooks, gradients and casts that an update which panicked has left at parameters.
pub(super) fn forget_gradients(params: &Params) {
    params.forget_casts();
    params.copies().iter().for_each(|copy| drop(copy.no_hook()));
    for (_, param) in trained(params, &[]) {
        no_hook_on_gradient(param);
        drop(take_gradient(param));
    }
}

/// Parameters that have gradients, but for those of copies.
fn trained<'a>(
    params: &'a Params,
    copies: &[KernelCopy],
) -> impl Iterator<Item = (&'a str, &'a Tensor)> {
    let copied: BTreeSet<String> = kernel_names(copies).map(str::to_string).collect();
    params.iter().filter(move |(name, param)| param.requires_grad() && !copied.contains(*name))
}

fn locked(pending: &Mutex<Pending>) -> MutexGuard<'_, Pending> {
    pending.lock().unwrap_or_else(PoisonError::into_inner)
}
