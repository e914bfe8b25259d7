//! Projections: kernels, and the format in which inputs are multiplied by them.

use tch::{Kind, Tensor};

use super::fp8::Fp8Product;
use super::joined::Joined;
use super::params::Params;
use super::profiler::{Activity, part};
use super::remat::project;

/// Maps the last axis of activations by one kernel.
#[derive(Debug)]
pub struct Projection {
    kernel: Tensor, // [in, out]
    fp8: Option<Fp8Product>,
}

impl Projection {
    /// Reads `{prefix}/kernel` in the compute dtype; products with it are in fp8 if the model uses fp8.
    pub fn new(params: &Params, prefix: &str, kind: Kind) -> Self {
        let name = format!("{prefix}/kernel");
        Self { kernel: params.cast(&name, kind), fp8: params.fp8_product(&name) }
    }

    /// Returns a projection with the kernel that `change` makes of this one.
    pub fn with_kernel(self, change: impl FnOnce(&Tensor) -> Tensor) -> Self {
        Self { kernel: change(&self.kernel), ..self }
    }

    /// Returns a projection whose results are divided by that factor.
    pub fn over(self, divisor: f64) -> Self {
        Self { kernel: self.kernel / divisor, ..self }
    }

    /// `[.., in]` to `[.., out]`
    pub fn forward(&self, inputs: &Tensor) -> Tensor {
        let _part = part(Activity::Products);
        match &self.fp8 {
            None => project(inputs, &self.kernel),
            Some(product) => product.matmul(inputs, &self.kernel),
        }
    }
}

/// Projections of the same inputs to results of one width: one product with their kernels side by side, in
/// memory only. In fp8 they share the scales of the first.
#[derive(Debug)]
pub struct Projections {
    product: Projection,
    count: usize,
}

impl Projections {
    /// Joins the projections, in order.
    ///
    /// # Panics
    /// If there are none, or their kernels are of several sizes.
    pub fn new(mut all: Vec<Projection>) -> Self {
        let count = all.len();
        let kernels: Vec<&Tensor> = all.iter().map(|projection| &projection.kernel).collect();
        assert!(
            kernels.windows(2).all(|pair| pair[0].size() == pair[1].size()),
            "kernels are of one size"
        );
        let joined = (count > 1).then(|| Tensor::cat(&kernels, 1));
        let first = all.swap_remove(0);
        let product = match joined {
            Some(kernel) => Projection { kernel, ..first },
            None => first,
        };
        Self { product, count }
    }

    /// Joins projections with the kernels at these paths, each times a factor, which have a copy side by side. `None` if
    /// they can have none, as parts of other arrays and parameters that are spread over processes.
    pub fn of_copy(params: &Params, kernels: &[(&str, f64)], kind: Kind) -> Option<Self> {
        let named = |(path, factor): &(&str, f64)| (format!("{path}/kernel"), *factor);
        let named: Vec<(String, f64)> = kernels.iter().map(named).collect();
        let kernel = (kind == Kind::BFloat16).then(|| params.copied(&named)).flatten()?;
        let fp8 = params.fp8_product(&named[0].0).map(Fp8Product::with_copy);
        Some(Self { product: Projection { kernel, fp8 }, count: kernels.len() })
    }

    /// `[.., in]` to `[.., out]` of each.
    pub fn forward(&self, inputs: &Tensor) -> Joined {
        Joined::new(vec![self.product.forward(inputs)], self.count)
    }
}

#[cfg(test)]
mod tests {
    use super::super::spec::{Fp8Format, TransformerEngineConfig};
    use super::*;
    use tch::Device;

    fn results(params: &Params, inputs: &Tensor, joined: bool) -> Vec<Tensor> {
        let one = |name: &str| Projection::new(params, name, Kind::Float);
        let all = vec![one("a"), one("b").over(2.0), one("c")];
        let parts = match joined {
            true => Projections::new(all).forward(inputs).parts(),
            false => all.iter().map(|projection| projection.forward(inputs)).collect(),
        };
        let weigh = |(part, weight): (&Tensor, f64)| {
            let numbers = Tensor::arange(part.numel() as i64, (Kind::Float, part.device()));
            (part * (numbers * weight).sin().view_as(part)).sum(Kind::Float)
        };
        let losses = parts.iter().zip([1.0, 2.0, 3.0]).map(weigh);
        let loss = losses.reduce(|a, b| a + b).expect("there are parts");
        let mut leaves = vec![inputs];
        leaves.extend(params.iter().map(|(_, kernel)| kernel));
        let mut all = Tensor::run_backward(&[loss], &leaves, false, false);
        all.extend(parts.iter().map(Tensor::detach));
        all
    }

    /// Compares results, with errors relative to the largest number of each.
    fn check(found: &[Tensor], expected: &[Tensor], tolerance: f64) {
        assert_eq!((found.len(), expected.len()), (7, 7));
        for (found, expected) in found.iter().zip(expected) {
            let error = (found - expected).abs().max().double_value(&[]);
            let largest = expected.abs().max().double_value(&[]);
            assert!(error < tolerance * largest, "{error} of {largest}");
        }
    }

    #[test]
    fn kernels_with_a_copy_give_what_they_give_without_one() {
        let _held = crate::nn::GENERATOR.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        tch::manual_seed(9);
        let random = |size: &[i64]| Tensor::randn(size, (Kind::Float, Device::Cpu));
        let names = ["a", "b"].map(|name| (format!("{name}/kernel"), random(&[10, 6])));
        let copied = Params::from_tensors(names.iter().map(|(name, it)| (name.clone(), it.copy())));
        let plain = Params::from_tensors(names);
        let inputs = random(&[15, 10]).to_kind(Kind::BFloat16);
        // A factor that is a power of 2 rounds nothing.
        let with = || Projections::of_copy(&copied, &[("a", 1.0), ("b", 0.5)], Kind::BFloat16);
        let one = |name: &str| Projection::new(&plain, name, Kind::BFloat16);
        let without = || Projections::new(vec![one("a"), one("b").over(2.0)]);
        let loss = |projections: Projections| {
            let results = projections.forward(&inputs);
            results.wholes()[0].to_kind(Kind::Float).sin().sum(Kind::Float)
        };
        let check = || {
            let (found, expected) = (with().expect("they are float32"), without());
            assert_eq!(found.forward(&inputs).wholes(), expected.forward(&inputs).wholes());
            let gradients = copied.gradients(&loss(found));
            assert_eq!(gradients, plain.gradients(&loss(expected)));
            gradients
        };
        check();
        // A change of a parameter is one of its copy.
        for params in [&copied, &plain] {
            let _ = tch::no_grad(|| params.get("b/kernel").shallow_clone().g_mul_scalar_(3.0));
        }
        let gradients = check();
        // Gradients of parts of a batch add up in float32, where the second would be lost in bfloat16.
        let small = 2f64.powi(-12);
        for factor in [1.0, small] {
            copied.backward(&(loss(with().expect("they are float32")) * factor));
        }
        for ((_, param), gradient) in copied.iter().zip(&gradients) {
            assert_eq!(param.grad(), gradient + gradient * small);
        }
    }

    #[test]
    fn joined_projections_give_what_they_give_apart_in_fp8_too() {
        let _held = crate::nn::GENERATOR.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        tch::manual_seed(9);
        let random = |size: &[i64]| Tensor::randn(size, (Kind::Float, Device::Cpu));
        let names = ["a", "b", "c"].map(|name| (format!("{name}/kernel"), random(&[10, 6])));
        let params = Params::from_tensors(names);
        let inputs = random(&[3, 5, 10]).set_requires_grad(true);
        let expected = results(&params, &inputs, false);
        check(&results(&params, &inputs, true), &expected, 5e-6);
        params.begin_fp8(Some(&TransformerEngineConfig {
            enable_fp8: true,
            fp8_format: Fp8Format::Hybrid,
            margin: 0.0,
            amax_history_len: 4,
        }));
        check(&results(&params, &inputs, true), &expected, 0.1);
    }
}
