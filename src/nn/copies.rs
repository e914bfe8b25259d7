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
        Self { leaf: self.leaf.shallow_clone(), kernels: self.other_handles() }
    }

    fn other_handles(&self) -> Vec<CopiedKernel> {
        self.kernels.iter().map(CopiedKernel::shallow_clone).collect()
    }

    /// Writes the columns of parameters that were changed in the meantime.
    pub(super) fn refresh(&mut self) {
        self.write_columns(&|kernel| kernel.version != Some(version(&kernel.param)));
    }

    /// Writes the columns of trained parameters after an update, which has `written` those of these.
    pub(super) fn follow_update(&mut self, written: &BTreeSet<String>) {
        // Some of libtorch's updates change parameters without counting it as a change.
        self.write_columns(&|kernel| {
            kernel.param.requires_grad() && !written.contains(&kernel.name)
        });
    }

    fn write_columns(&mut self, are_old: &dyn Fn(&CopiedKernel) -> bool) {
        for kernel in &mut self.kernels {
            if are_old(kernel) {
                let CopiedColumns { values, factor } = &mut kernel.columns;
                tch::no_grad(|| match *factor {
                    1.0 => values.copy_(&kernel.param),
                    factor => values.copy_(&(&kernel.param * factor)),
                });
            }
            kernel.version = Some(version(&kernel.param));
        }
    }

    /// Calls `hook` when a backward pass has completed the gradient, with the parameters and that gradient, which is then gone
    /// from the copy.
    pub fn on_gradient(&self, hook: impl Fn(&[CopiedKernel], Tensor) + Send + 'static) {
        // No handle of the leaf, which would keep itself then.
        let kernels = self.other_handles();
        on_gradient(&self.leaf, move |leaf| hook(&kernels, take_gradient(leaf)));
    }

    /// Removes the hook, and returns a gradient that it has not seen.
    pub fn no_hook(&self) -> Tensor {
        no_hook_on_gradient(&self.leaf);
        take_gradient(&self.leaf)
    }
}

impl CopiedKernel {
    fn shallow_clone(&self) -> Self {
        Self {
            name: self.name.clone(),
            param: self.param.shallow_clone(),
            columns: self.columns.shallow_clone(),
            version: self.version,
        }
    }
}

/// Returns those of the parameters that are trained, each with its columns of a gradient of their copy; undefined ones of
/// an undefined one.
pub fn with_gradients<'a>(
    kernels: &'a [CopiedKernel],
    gradient: &Tensor,
) -> impl Iterator<Item = (&'a CopiedKernel, Tensor)> {
    let columns = |place: i64, width: i64| match gradient.defined() {
        true => gradient.narrow(1, place * width, width),
        false => Tensor::new(),
    };
    let all =
        (0..).zip(kernels).map(|(place, kernel)| (kernel, columns(place, kernel.param.size()[1])));
    let trained = all.filter(|(kernel, _)| kernel.param.requires_grad());
    trained.collect::<Vec<_>>().into_iter()
}

/// Adds the gradient of a copy to those of its parameters.
pub(super) fn add_gradients(kernels: &[CopiedKernel], gradient: &Tensor) {
    for (kernel, own) in with_gradients(kernels, gradient) {
        match kernel.columns.factor {
            1.0 => add_gradient(&kernel.param, &own),
            _ => add_gradient(&kernel.param, &kernel.columns.widened(&own)),
        }
    }
}
