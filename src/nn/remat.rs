//! Activation checkpointing: layers that keep little of their forward pass and run it again in the
//! backward pass (Chen et al. 2016, arXiv:1604.06174).
//!
//! The second run starts from the same input, weights and random numbers, so that its gradients
//! equal those of a layer that keeps everything, exactly if operations are deterministic. Weights
//! are cast again for each run: copies in the compute dtype live as long as one layer needs them.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use tch::Tensor;

use super::autograd::{
    custom_function, gradients_of, random_state, records_gradients, set_random_state,
};
use super::params::Params;
use super::spec::RematPolicy;

/// A layer of a stack: its weights in the compute dtype, or a recipe for them.
pub enum Block<L> {
    /// A layer that is kept with all results of its forward pass.
    Kept(L),
    /// A layer that is made again for each run.
    Remade(Recipe<L>),
}

/// The parameters and the function that make a layer.
pub struct Recipe<L> {
    params: Params,
    make: Arc<dyn Fn(&Params) -> L + Send + Sync>,
    policy: RematPolicy,
}

impl<L> Block<L> {
    /// Creates the layer that `make` makes of `params`. If no gradients are recorded, nothing is
    /// kept for them and `policy` has no effect. Parameters that are spread over processes are gathered for each run,
    /// at least by [`RematPolicy::Minimal`].
    pub fn new(
        policy: RematPolicy,
        params: Params,
        make: impl Fn(&Params) -> L + Send + Sync + 'static,
    ) -> Self {
        let policy = match policy {
            // Whole weights of many layers would not fit.
            RematPolicy::None if params.are_spread() => RematPolicy::Minimal,
            _ if params.are_spread() || records_gradients() => policy,
            _ => RematPolicy::None,
        };
        match policy {
            RematPolicy::None => Block::Kept(make(&params)),
            _ => Block::Remade(Recipe { params, make: Arc::new(make), policy }),
        }
    }
}

impl<L> fmt::Debug for Block<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Block::Kept(_) => "Kept",
            Block::Remade(_) => "Remade",
        })
    }
}

impl<L> Clone for Recipe<L> {
    fn clone(&self) -> Self {
        let make = Arc::clone(&self.make);
        Self { params: self.params.clone(), make, policy: self.policy }
    }
}

impl<L: 'static> Recipe<L> {
    /// Runs `body` on the layer and `inputs`, with the random numbers of the first one's device.
    /// It must end in a projection, whose result is only added to and not read again.
    pub fn forward(
        &self,
        inputs: &[&Tensor],
        body: impl Fn(&L, &[&Tensor]) -> Tensor + Send + 'static,
    ) -> Tensor {
        let first_state = random_state(inputs[0]);
        let run = || tch::no_grad(|| body(&(self.make)(&self.params.gathered()), inputs));
        let (output, products) = match self.policy {
            RematPolicy::Minimal => Products::recorded(run),
            _ => (run(), None),
        };
        let leaf = |input: &&Tensor| input.detach().set_requires_grad(input.requires_grad());
        let leaves: Vec<Tensor> = inputs.iter().map(leaf).collect();
        let params = self.params.iter().map(|(_, param)| param);
        let from: Vec<&Tensor> = inputs.iter().copied().chain(params).collect();
        let recipe = self.clone();
        let backward = move |gradients: Vec<Tensor>| {
            let whole = recipe.params.gathered();
            let again = |inputs: &[&Tensor]| body(&(recipe.make)(&whole), inputs);
            let output = with_random_state(&leaves[0], &first_state, || {
                let inputs: Vec<&Tensor> = leaves.iter().collect();
                Products::replayed(products, || tch::with_grad(|| again(&inputs)))
            });
            let params = whole.iter().map(|(_, param)| param);
            let mut found =
                gradients_where_required(output, gradients, leaves.iter().chain(params));
            let of_params = found.split_off(leaves.len());
            found.extend(recipe.params.sum_parts(of_params));
            found
        };
        custom_function(&from, vec![output], backward).remove(0)
    }
}

/// Runs `body` from that state of the device's random numbers, and then restores the current state.
fn with_random_state<R>(on_device: &Tensor, state: &Tensor, body: impl FnOnce() -> R) -> R {
    let current = random_state(on_device);
    set_random_state(on_device, state);
    let result = body();
    set_random_state(on_device, &current);
    result
}

/// Returns one gradient for each leaf, undefined for leaves that require none.
fn gradients_where_required<'a>(
    output: Tensor,
    gradients: Vec<Tensor>,
    leaves: impl Iterator<Item = &'a Tensor>,
) -> Vec<Tensor> {
    let leaves: Vec<&Tensor> = leaves.collect();
    let required: Vec<&Tensor> = leaves.iter().copied().filter(|l| l.requires_grad()).collect();
    let mut found = gradients_of(&[output], &gradients, &required).into_iter();
    let one = |leaf: &Tensor| match leaf.requires_grad() {
        true => found.next().expect("a gradient for each that requires one"),
        false => Tensor::new(),
    };
    leaves.into_iter().map(one).collect()
}

thread_local! {
    static PRODUCTS: RefCell<Products> = const { RefCell::new(Products::Computed) };
}

/// The use of the results of projections on this thread.
enum Products {
    /// They are only computed.
    Computed,
    /// They are also kept here, in order.
    Recorded(Vec<Tensor>),
    /// They are taken from here. The last one is missing, because no other value depends on it.
    Replayed(VecDeque<Tensor>),
}

impl Products {
    /// Returns the result of `body`, and the results of all its projections except the last.
    fn recorded<R>(body: impl FnOnce() -> R) -> (R, Option<VecDeque<Tensor>>) {
        let outer = PRODUCTS.replace(Products::Recorded(Vec::new()));
        let result = body();
        let Products::Recorded(mut products) = PRODUCTS.replace(outer) else {
            unreachable!("blocks do not contain blocks");
        };
        products.pop();
        (result, Some(products.into()))
    }

    /// Runs `body` with `products` as the results of its projections, if there are any.
    fn replayed<R>(products: Option<VecDeque<Tensor>>, body: impl FnOnce() -> R) -> R {
        let Some(products) = products else { return body() };
        let outer = PRODUCTS.replace(Products::Replayed(products));
        let result = body();
        PRODUCTS.set(outer);
        result
    }
}

/// `inputs` `[.., features]` times a weight `[features, outputs]`: the products that
/// [`RematPolicy::Minimal`] keeps. The result must not be written to.
pub fn project(inputs: &Tensor, kernel: &Tensor) -> Tensor {
    let kept = PRODUCTS.with_borrow_mut(|products| match products {
        Products::Replayed(kept) => Some(kept.pop_front()),
        _ => None,
    });
    if let Some(kept) = kept {
        return known_product(inputs, kernel, kept);
    }
    let product = inputs.matmul(kernel);
    PRODUCTS.with_borrow_mut(|products| {
        if let Products::Recorded(kept) = products {
            kept.push(product.shallow_clone());
        }
    });
    product
}

/// Returns a product with known or unused values, and the gradients of a product.
fn known_product(inputs: &Tensor, kernel: &Tensor, values: Option<Tensor>) -> Tensor {
    let values = values.unwrap_or_else(|| {
        let mut size = inputs.size();
        *size.last_mut().expect("inputs have features") = kernel.size()[1];
        Tensor::empty(size, (inputs.kind(), inputs.device()))
    });
    let (kept_inputs, kept_kernel) = (inputs.detach(), kernel.detach());
    let backward = move |gradients: Vec<Tensor>| {
        let rows = |tensor: &Tensor| tensor.reshape([-1, *tensor.size().last().expect("features")]);
        let gradient = rows(&gradients[0]);
        let of_inputs = gradient.mm(&kept_kernel.tr()).view_as(&kept_inputs);
        vec![of_inputs, rows(&kept_inputs).tr().mm(&gradient)]
    };
    custom_function(&[inputs, kernel], vec![values], backward).remove(0)
}
