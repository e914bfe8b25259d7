//! Updates inside a backward pass: each parameter is updated as soon as its gradient is complete.
//! The gradient is then freed, so that gradients of few layers are in memory at once.

use std::collections::BTreeMap;
use std::mem;
use std::sync::{Arc, Mutex, PoisonError};

use tch::Tensor;

use super::optimizer::{Gradient, Optimizer, scratch};
use super::update::{ParamState, Prepared, Updated, apply};
use super::watch::Watch;
use crate::nn::Params;
use crate::nn::autograd::{no_hook_on_gradient, on_gradient, take_gradient};

/// An update in progress.
struct Pending {
    update: Box<dyn Prepared>,
    watch: Watch,
    states: BTreeMap<String, ParamState>,
    /// States of parameters that have been updated.
    done: BTreeMap<String, ParamState>,
}

impl Pending {
    fn apply(&mut self, name: &str, param: &Tensor) {
        // A second backward pass over the parameter finds no state; the gradient stays.
        let Some(mut state) = self.states.remove(name) else { return };
        let grad = take_gradient(param);
        tch::no_grad(|| {
            let grad = scratch(&Gradient { name, param, grad: &grad });
            let old = self.watch.before(name, param, &grad);
            let given = Updated { name, param: param.shallow_clone(), grad, state: &mut state };
            apply(&*self.update, vec![given]);
            self.watch.after(name, param, old);
        });
        self.done.insert(name.to_string(), state);
    }
}

impl Optimizer {
    /// Applies `update` while `backward` runs; to parameters that `backward` does not reach,
    /// afterwards.
    pub(super) fn apply_in(
        &mut self,
        backward: impl FnOnce(),
        params: &Params,
        update: Box<dyn Prepared>,
        watch: &mut Watch,
    ) {
        let (states, done) = (mem::take(&mut self.states), BTreeMap::new());
        let pending = Pending { update, watch: mem::take(watch), states, done };
        let pending = Arc::new(Mutex::new(pending));
        for (name, param) in params.iter() {
            let (pending, name) = (Arc::clone(&pending), name.to_string());
            on_gradient(param, move |leaf| {
                pending.lock().unwrap_or_else(PoisonError::into_inner).apply(&name, leaf);
            });
        }
        backward();
        params.iter().for_each(|(_, param)| no_hook_on_gradient(param));
        let pending = Arc::into_inner(pending).expect("the hooks are gone");
        let mut pending = pending.into_inner().unwrap_or_else(PoisonError::into_inner);
        params.iter().for_each(|(name, param)| pending.apply(name, param));
        self.states = mem::take(&mut pending.done);
        self.states.append(&mut pending.states);
        *watch = pending.watch;
    }
}
