//! Kernels as products in bfloat16 read them: copies of float32 parameters, side by side where they read the same
//! inputs.
//!
//! A copy is a leaf of the graph in the place of its parameters. So a forward pass neither casts nor joins kernels, and their
//! gradients stay in bfloat16, in one matrix, until an update reads them. Adafactor's kernel writes a parameter and its
//! columns of the copy in one pass; after other updates the copy is written again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};

use tch::{Kind, Tensor};

use super::autograd::{add_gradient, no_hook_on_gradient, on_gradient, take_gradient, version};
use super::params::Params;

static ENABLED: AtomicBool = AtomicBool::new(true);

/// Sets whether kernels have copies: always, except in measurements of what they gain.
pub fn enable_copies(on: bool) {
    ENABLED.store(on, Ordering::Relaxed);
}

/// Whether kernels have copies.
pub(super) fn are_enabled() -> bool {
    ENABLED.load(Ordering::Relaxed)
}

/// The copies of the kernels of a model, by the name of the first one in each.
pub(super) type Copies = BTreeMap<String, KernelCopy>;

/// Kernels of one size in bfloat16, side by side.
#[derive(Debug)]
pub struct KernelCopy {
    leaf: Tensor, // [in, kernels * out]
    kernels: Vec<CopiedKernel>,
}

/// A parameter, and its columns of a copy.
#[derive(Debug)]
pub struct CopiedKernel {
    /// The parameter's name.
    pub name: String,
    /// The parameter, float32 `[in, out]`.
    pub param: Tensor,
    /// Its columns of the copy, bfloat16 `[in, out]`.
    pub columns: CopiedColumns,
    /// The version of the parameter that was copied.
    version: Option<i64>,
}

/// A parameter times a factor, in bfloat16, as columns of a wider matrix.
#[derive(Debug)]
pub struct CopiedColumns {
    /// `[in, out]`
    pub values: Tensor,
    /// The factor.
    pub factor: f64,
}

impl CopiedColumns {
    /// Another handle of the same numbers.
    pub fn shallow_clone(&self) -> Self {
        Self { values: self.values.shallow_clone(), factor: self.factor }
    }

    /// Returns the gradient of the parameter, float32 and contiguous, from that of its columns.
    pub fn widened(&self, gradient: &Tensor) -> Tensor {
        let mut wide = gradient.to_kind(Kind::Float).contiguous();
        if self.factor == 1.0 { wide } else { wide.g_mul_scalar_(self.factor) }
    }
}

impl KernelCopy {
    /// Makes room for copies of kernels, each times a factor.
    pub(super) fn new(params: &Params, kernels: &[(String, f64)]) -> Self {
        let first = params.get(&kernels[0].0);
        let (rows, width) = first.size2().expect("kernels have two axes");
        let size = [rows, width * kernels.len() as i64];
        let leaf = Tensor::empty(size, (Kind::BFloat16, first.device()));
        let kernel = |(place, (name, factor)): (i64, &(String, f64))| {
            let param = params.get(name).shallow_clone();
            assert_eq!(param.size(), [rows, width], "kernels are of one size");
            let values = leaf.detach().narrow(1, place * width, width);
            let columns = CopiedColumns { values, factor: *factor };
            CopiedKernel { name: name.clone(), param, columns, version: None }
        };
        let kernels = (0..).zip(kernels).map(kernel).collect();
        Self { leaf, kernels }
    }

    /// The copy as a leaf of the graph, which requires a gradient if one of the parameters does.
    pub(super) fn leaf(&self) -> Tensor {
        let is_trained = self.kernels.iter().any(|kernel| kernel.param.requires_grad());
        self.leaf.set_requires_grad(is_trained)
    }

    /// The parameters, in the order of their columns.
    pub fn kernels(&self) -> &[CopiedKernel] {
        &self.kernels
    }

    /// Another handle of the same copy.
    pub fn shallow_clone(&self) -> Self {
        let kernel = |kernel: &CopiedKernel| CopiedKernel {
            name: kernel.name.clone(),
            param: kernel.param.shallow_clone(),
            columns: kernel.columns.shallow_clone(),
            version: kernel.version,
        };
        let kernels = self.kernels.iter().map(kernel).collect();
        Self { leaf: self.leaf.shallow_clone(), kernels }
    }

    /// Writes the columns of parameters that were changed. `written` says which are written already.
    pub(super) fn refresh(&mut self, written: &BTreeSet<String>) {
        for CopiedKernel { name, param, columns, version: copied } in &mut self.kernels {
            let current = Some(version(param));
            let is_fresh = *copied == current || written.contains(name);
            *copied = current;
            if is_fresh {
                continue;
            }
            tch::no_grad(|| match columns.factor {
                1.0 => columns.values.copy_(param),
                factor => columns.values.copy_(&(&*param * factor)),
            });
        }
    }

    /// Returns the trained parameters, each with its columns of a gradient of the copy; undefined ones of an undefined one.
    pub fn with_gradients(
        &self,
        gradient: &Tensor,
    ) -> impl Iterator<Item = (&CopiedKernel, Tensor)> {
        let of = |(place, kernel): (i64, &CopiedKernel)| {
            let width = kernel.param.size()[1];
            if gradient.defined() {
                gradient.narrow(1, place * width, width)
            } else {
                Tensor::new()
            }
        };
        let parts: Vec<Tensor> = (0..).zip(&self.kernels).map(of).collect();
        let all = self.kernels.iter().zip(parts);
        all.filter(|(kernel, _)| kernel.param.requires_grad())
    }

    /// Calls `hook` when a backward pass has completed the gradient, with that gradient, which is then gone.
    pub fn on_gradient(&self, hook: impl Fn(&Self, Tensor) + Send + 'static) {
        let own = self.shallow_clone();
        on_gradient(&self.leaf, move |leaf| hook(&own, take_gradient(leaf)));
    }

    /// Removes the hook, and returns a gradient that it has not seen.
    pub fn no_hook(&self) -> Tensor {
        no_hook_on_gradient(&self.leaf);
        take_gradient(&self.leaf)
    }

    /// Adds the gradient of the copy to those of the parameters.
    pub(super) fn add_gradient(&self, gradient: &Tensor) {
        for (kernel, own) in self.with_gradients(gradient) {
            match kernel.columns.factor {
                1.0 => add_gradient(&kernel.param, &own),
                _ => add_gradient(&kernel.param, &kernel.columns.widened(&own)),
            }
        }
    }
}
