//! Activation checkpointing: layers that keep little of their forward pass and run it again in the
//! backward pass (Chen et al. 2016, arXiv:1604.06174).
//!
//! The second run starts from the same input, weights and random numbers, so that its gradients
//! equal those of a layer that keeps everything, exactly if operations are deterministic. Weights
//! without a copy in the compute dtype are cast again for each run, and live as long as one layer needs them.

use std::fmt;
use std::sync::Arc;

use tch::Tensor;

use super::autograd::{
    custom_function, gradients_of, random_state, records_gradients, set_random_state,
};
use super::lookahead::Lookahead;
use super::params::Params;
use super::products::{Products, keep, recall};
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
    layers: Arc<Lookahead>,
    /// The number of the layer among them.
    place: usize,
    make: Arc<dyn Fn(&Params) -> L + Send + Sync>,
    policy: RematPolicy,
    reads_last_product: bool,
}

impl<L> Block<L> {
    /// Creates the layer that `make` makes of the parameters at `path`. If no gradients are recorded, nothing is
    /// kept for them and `policy` has no effect. Parameters that are spread over processes are gathered for each run,
    /// at least by [`RematPolicy::Minimal`]. `reads_last_product` says that a layer does more with the result of its last
    /// projection than to add it to others.
    pub fn new(
        (policy, reads_last_product): (RematPolicy, bool),
        (layers, path): (&Arc<Lookahead>, &str),
        make: impl Fn(&Params) -> L + Send + Sync + 'static,
    ) -> Self {
        let place = layers.place(path);
        let params = layers.params(place);
        let policy = match policy {
            // Whole weights of many layers would not fit.
            RematPolicy::None if params.are_spread() => RematPolicy::Minimal,
            _ if params.are_spread() || records_gradients() => policy,
            _ => RematPolicy::None,
        };
        match policy {
            RematPolicy::None => Block::Kept(make(&params)),
            _ => {
                let layers = Arc::clone(layers);
                Block::Remade(Recipe {
                    layers,
                    place,
                    make: Arc::new(make),
                    policy,
                    reads_last_product,
                })
            }
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
        let (layers, make) = (Arc::clone(&self.layers), Arc::clone(&self.make));
        Self { layers, make, ..*self }
    }
}

impl<L: 'static> Recipe<L> {
    /// Runs `body` on the layer and `inputs`, with the random numbers of the first one's device.
    pub fn forward(
        &self,
        inputs: &[&Tensor],
        body: impl Fn(&L, &[&Tensor]) -> Vec<Tensor> + Send + 'static,
    ) -> Vec<Tensor> {
        let first_state = random_state(inputs[0]);
        let whole = self.layers.forward(self.place);
        let run = || tch::no_grad(|| body(&(self.make)(&whole), inputs));
        let (outputs, products) = match self.policy {
            RematPolicy::Minimal => Products::recorded(run, self.reads_last_product),
            _ => (run(), None),
        };
        drop(whole);
        let leaf = |input: &&Tensor| input.detach().set_requires_grad(input.requires_grad());
        let leaves: Vec<Tensor> = inputs.iter().map(leaf).collect();
        let params = self.layers.params(self.place).leaves();
        let from = inputs.iter().copied().chain(params.iter().map(|(_, param)| param));
        let from: Vec<&Tensor> = from.collect();
        let recipe = self.clone();
        let backward = move |gradients: Vec<Tensor>| {
            let whole = recipe.layers.backward(recipe.place);
            let again = |inputs: &[&Tensor]| body(&(recipe.make)(&whole), inputs);
            let outputs = with_random_state(&leaves[0], &first_state, || {
                let inputs: Vec<&Tensor> = leaves.iter().collect();
                Products::replayed(products, || tch::with_grad(|| again(&inputs)))
            });
            let params = whole.leaves();
            let params = params.iter().map(|(_, param)| param);
            let mut found =
                gradients_where_required(&outputs, &gradients, leaves.iter().chain(params));
            let of_params = found.split_off(leaves.len());
            found.extend(recipe.layers.params(recipe.place).sum_parts(of_params));
            found
        };
        custom_function(&from, outputs, backward)
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
    outputs: &[Tensor],
    gradients: &[Tensor],
    leaves: impl Iterator<Item = &'a Tensor>,
) -> Vec<Tensor> {
    let leaves: Vec<&Tensor> = leaves.collect();
    let required: Vec<&Tensor> = leaves.iter().copied().filter(|l| l.requires_grad()).collect();
    let mut found = gradients_of(outputs, gradients, &required).into_iter();
    let one = |leaf: &Tensor| match leaf.requires_grad() {
        true => found.next().expect("a gradient for each that requires one"),
        false => Tensor::new(),
    };
    leaves.into_iter().map(one).collect()
}

/// `inputs` `[.., features]` times a weight `[features, outputs]`: the products that
/// [`RematPolicy::Minimal`] keeps. The result must not be written to.
pub fn project(inputs: &Tensor, kernel: &Tensor) -> Tensor {
    if let Some(kept) = recall() {
        return known_product(inputs, kernel, kept);
    }
    let product = inputs.matmul(kernel);
    keep(&product);
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
    let is_trained = kernel.requires_grad();
    let backward = move |gradients: Vec<Tensor>| {
        let rows = |tensor: &Tensor| tensor.reshape([-1, *tensor.size().last().expect("features")]);
        let gradient = rows(&gradients[0]);
        let of_inputs = gradient.mm(&kept_kernel.tr()).view_as(&kept_inputs);
        let of_kernel = is_trained.then(|| rows(&kept_inputs).tr().mm(&gradient));
        vec![of_inputs, of_kernel.unwrap_or_default()]
    };
    custom_function(&[inputs, kernel], vec![values], backward).remove(0)
}
