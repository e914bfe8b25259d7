//! Products in 8-bit floats (Micikevicius et al. 2022, arXiv:2209.05433), with one scale a tensor.
//!
//! Inputs and kernels are cast to e4m3, gradients to e5m2, and sums are float32. Scales follow
//! either the tensor's own largest magnitude, or the largest of the last steps, which is known
//! before the tensor is computed and so saves a pass over it (NVIDIA Transformer Engine,
//! `DelayedScaling`). Nothing waits for the device. The history is not part of a checkpoint: a
//! resumed run begins with a step of own magnitudes, like a new run.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tch::{Device, Kind, Tensor};

use super::autograd::{custom_function, records_gradients, version};
use super::axis::Axes;
use super::fused::kernels::{self, Kernel};
use super::profiler::{Activity, part};
use super::spec::{Fp8Format, TransformerEngineConfig};

/// The largest finite magnitudes.
const E4M3_MAX: f64 = 448.0;
const E5M2_MAX: f64 = 57344.0;
/// Extents of products on tensor cores are multiples of this.
const ALIGNMENT: i64 = 16;
/// Tensors of one product with a scale each.
const ROLES: usize = 3;

/// The role of a factor of a product.
#[derive(Clone, Copy)]
enum Role {
    Inputs,
    Kernel,
    Gradient,
}

/// The scales of all products of a model, which adapt from step to step.
#[derive(Debug)]
pub struct Fp8Scaling {
    spec: TransformerEngineConfig,
    /// The first of a kernel's three tensors. Of kernels that are one product, those of the first serve all.
    slots: BTreeMap<String, usize>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    history: Tensor,  // float32 [amax_history_len, tensors]
    largest: Tensor,  // float32 [tensors], of this step so far; of kernels in the last cast
    scales: Tensor,   // float32 [tensors]
    unscales: Tensor, // float32 [tensors], their reciprocals
    maxima: Tensor,   // float32 [tensors], the largest magnitude of each one's format
    stays: Tensor, // float32 [tensors], 1 of kernels, whose casts may serve several passes, and 0 of others
    /// The casts of kernels that have copies, by the kernel's number.
    kernels: BTreeMap<usize, CastKernel>,
    step: i64,
    /// The processes that work on the same batch, whose number must not change the scales.
    axes: Axes,
}

impl Fp8Scaling {
    /// Creates scales for the products with kernels of these names, on `device`.
    pub fn new<'a>(
        spec: &TransformerEngineConfig,
        kernels: impl Iterator<Item = &'a str>,
        device: Device,
    ) -> Self {
        let slots: BTreeMap<_, _> =
            kernels.enumerate().map(|(index, name)| (name.to_string(), ROLES * index)).collect();
        let tensors = (ROLES * slots.len()) as i64;
        let maxima = [Role::Inputs, Role::Kernel, Role::Gradient]
            .map(|role| spec.format(role).largest() as f32)
            .repeat(slots.len());
        let stays = [0f32, 1.0, 0.0].repeat(slots.len());
        let zeros = |size: &[i64]| Tensor::zeros(size, (Kind::Float, device));
        let state = State {
            history: zeros(&[spec.amax_history_len as i64, tensors]),
            largest: zeros(&[tensors]),
            scales: zeros(&[tensors]),
            unscales: zeros(&[tensors]),
            stays: Tensor::from_slice(&stays).to_device(device),
            kernels: BTreeMap::new(),
            maxima: Tensor::from_slice(&maxima).to_device(device),
            step: 0,
            axes: Axes::default(),
        };
        Self { spec: spec.clone(), slots, state: Mutex::new(state) }
    }

    /// Returns the configuration.
    pub fn spec(&self) -> &TransformerEngineConfig {
        &self.spec
    }

    /// Must be called before each forward pass of training, whose batch the processes along these axes share:
    /// computes the scales of its tensors from earlier magnitudes.
    pub fn next_step(&self, axes: &Axes) {
        let mut state = self.state();
        let length = self.spec.amax_history_len as i64;
        state.step += 1;
        state.axes = axes.clone();
        if length == 0 || state.step == 1 {
            return;
        }
        tch::no_grad(|| {
            // A magnitude that is not finite would leave its tensor without a scale until it is forgotten.
            let largest = state.largest.nan_to_num(0.0, 0.0, 0.0);
            state.axes.max_in_place(&largest);
            // Always the same places, so that a step can be recorded as work of the device.
            let older = state.history.narrow(0, 1, length - 1).copy();
            state.history.narrow(0, 0, length - 1).copy_(&older);
            state.history.get(length - 1).copy_(&largest);
            let largest = state.history.amax([0i64].as_slice(), false);
            let scales = scale(&state.maxima, &largest, self.spec.margin);
            state.scales.copy_(&scales);
            // Not in place: graphs of an earlier pass may hold them.
            state.unscales = state.scales.reciprocal();
            let _ = state.largest.shallow_clone().g_mul_(&state.stays);
        });
    }

    /// Must be called before a forward pass of an evaluation, for which each process has its own batches.
    pub fn evaluate(&self) {
        self.state().axes = Axes::default();
    }

    /// Forgets the casts of kernels: after an update, and after work that was recorded but not done.
    pub(super) fn forget_casts(&self) {
        self.state().kernels.clear();
    }

    /// Returns products with the kernel of that name.
    pub fn product(self: &Arc<Self>, kernel: &str) -> Fp8Product {
        let slot =
            *self.slots.get(kernel).unwrap_or_else(|| panic!("no kernel is named `{kernel}`"));
        Fp8Product { scaling: Arc::clone(self), slot, has_copy: false }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns `maximum / largest`, reduced by the margin; 1 if there is nothing to scale.
fn scale(maximum: &Tensor, largest: &Tensor, margin: f64) -> Tensor {
    let scale = maximum / largest * 2f64.powf(-margin);
    // Numbers as small as 1e-36 would scale beyond float32.
    scale.where_self(&largest.gt(1e-30), &Tensor::ones_like(largest))
}

/// An 8-bit float format.
#[derive(Clone, Copy, PartialEq)]
enum Format {
    E4m3,
    E5m2,
}

impl Format {
    fn kind(self) -> Kind {
        match self {
            Format::E4m3 => Kind::Float8e4m3fn,
            Format::E5m2 => Kind::Float8e5m2,
        }
    }

    fn largest(self) -> f64 {
        match self {
            Format::E4m3 => E4M3_MAX,
            Format::E5m2 => E5M2_MAX,
        }
    }
}

impl TransformerEngineConfig {
    fn format(&self, role: Role) -> Format {
        match (self.fp8_format, role) {
            (Fp8Format::Hybrid, Role::Gradient) => Format::E5m2,
            _ => Format::E4m3,
        }
    }
}

/// Multiplies with one kernel.
#[derive(Clone, Debug)]
pub struct Fp8Product {
    scaling: Arc<Fp8Scaling>,
    slot: usize,
    /// Whether the kernel is a copy, whose cast serves until an update changes it.
    has_copy: bool,
}

/// A cast matrix, as stored and transposed: tensor cores read both factors along the sum.
#[derive(Debug)]
struct Factor {
    rows: Tensor,
    columns: Tensor,
    /// The factor that undoes the scale. float32 `[]`
    unscale: Tensor,
}

/// The cast of a version of a kernel.
#[derive(Debug)]
struct CastKernel {
    version: i64,
    factor: Factor,
}

impl Factor {
    fn shallow_clone(&self) -> Self {
        let [rows, columns, unscale] =
            [&self.rows, &self.columns, &self.unscale].map(Tensor::shallow_clone);
        Self { rows, columns, unscale }
    }
}

impl Fp8Product {
    /// Returns products with a kernel that is always the same copy.
    pub(super) fn with_copy(self) -> Self {
        Self { has_copy: true, ..self }
    }

    /// `[.., in] x [in, out]` to `[.., out]`, in the dtype of `inputs`.
    pub fn matmul(&self, inputs: &Tensor, kernel: &Tensor) -> Tensor {
        let mut size = inputs.size();
        let (width, out) = kernel.size2().expect("kernels have two axes");
        *size.last_mut().expect("activations have axes") = out;
        let matrix = inputs.reshape([-1, width]);
        let kind = inputs.kind();
        // Inputs of a first layer need no gradient where the embedding is frozen.
        let recorded = records_gradients();
        let is_trained = kernel.requires_grad();
        let (product, factors) = tch::no_grad(|| {
            let factors =
                [self.cast(Role::Inputs, &matrix, recorded), self.cast_kernel(kernel, recorded)];
            let [a, b] = &factors;
            (multiply([&a.rows, &b.columns], [&a.unscale, &b.unscale], kind), factors)
        });
        let (own, kernel_kind) = (self.clone(), kernel.kind());
        let gradients = move |of: Vec<Tensor>| {
            let _part = part(Activity::Products);
            let gradient = own.cast(Role::Gradient, &of[0], true);
            let [inputs, kernel] = &factors;
            let unscale = [&gradient.unscale, &kernel.unscale];
            let to_inputs = multiply([&gradient.rows, &kernel.rows], unscale, kind);
            let unscale = [&inputs.unscale, &gradient.unscale];
            let factors = [&inputs.columns, &gradient.columns];
            let to_kernel = is_trained.then(|| multiply(factors, unscale, kernel_kind));
            vec![to_inputs, to_kernel.unwrap_or_default()]
        };
        custom_function(&[&matrix, kernel], vec![product], gradients)
            .remove(0)
            .view(size.as_slice())
    }

    /// Casts the kernel, or takes the cast of an earlier pass since its last update. One that is not `recorded` is not kept.
    fn cast_kernel(&self, kernel: &Tensor, recorded: bool) -> Factor {
        if !self.has_copy {
            return self.cast(Role::Kernel, kernel, recorded);
        }
        let version = version(kernel);
        let known = self
            .scaling
            .state()
            .kernels
            .get(&self.slot)
            .and_then(|known| (known.version == version).then(|| known.factor.shallow_clone()));
        known.unwrap_or_else(|| {
            let factor = self.cast(Role::Kernel, kernel, recorded);
            if recorded {
                let kept = CastKernel { version, factor: factor.shallow_clone() };
                self.scaling.state().kernels.insert(self.slot, kept);
            }
            factor
        })
    }

    /// Casts a matrix; its magnitude is remembered if it is `recorded`.
    fn cast(&self, role: Role, matrix: &Tensor, recorded: bool) -> Factor {
        let spec = &self.scaling.spec;
        let format = spec.format(role);
        let matrix = matrix.contiguous();
        let state = self.scaling.state();
        let at = |tensor: &Tensor| tensor.narrow(0, (self.slot + role as usize) as i64, 1);
        let mut largest = at(&state.largest);
        let delayed = spec.amax_history_len > 0;
        if delayed && recorded && matches!(role, Role::Kernel) {
            let _ = largest.zero_();
        }
        if delayed && state.step > 1 {
            let scales = [at(&state.scales), at(&state.unscales)];
            return cast_with(&matrix, format, &scales, recorded.then_some(&mut largest));
        }
        let own = largest_magnitude(&matrix);
        state.axes.max_in_place(&own);
        if delayed && recorded {
            largest.copy_(&largest.maximum(&own));
        }
        let maximum = own.full_like(format.largest());
        let scale = scale(&maximum, &own, spec.margin);
        let unscale = scale.reciprocal();
        cast_with(&matrix, format, &[scale, unscale], None)
    }
}

/// float32 `[1]`
fn largest_magnitude(matrix: &Tensor) -> Tensor {
    if !kernels::suit(Kernel::Fp8Cast, matrix, i64::MAX) {
        return matrix.abs().max().to_kind(Kind::Float).view([1]);
    }
    let largest = Tensor::zeros([1], (Kind::Float, matrix.device()));
    kernels::launch(c"largest_magnitude", &[matrix, &largest], &[]);
    largest
}

/// Casts `matrix * scale`, and clamps large values; merges its largest magnitude into `largest`. Takes the reciprocal of the
/// scale too.
fn cast_with(
    matrix: &Tensor,
    format: Format,
    [scale, unscale]: &[Tensor; 2],
    largest: Option<&mut Tensor>,
) -> Factor {
    let unscale = unscale.view([0i64; 0]);
    if !kernels::suit(Kernel::Fp8Cast, matrix, i64::MAX) {
        if let Some(largest) = largest {
            largest.copy_(&largest.maximum(&largest_magnitude(matrix)));
        }
        let scaled =
            (matrix.to_kind(Kind::Float) * scale).clamp_(-format.largest(), format.largest());
        let rows = scaled.to_kind(format.kind());
        return Factor { columns: rows.tr().contiguous(), rows, unscale };
    }
    let (height, width) = matrix.size2().expect("factors are matrices");
    let empty = |size: [i64; 2]| Tensor::empty(size, (format.kind(), matrix.device()));
    let (rows, columns) = (empty([height, width]), empty([width, height]));
    let absent = Tensor::new();
    let largest: &Tensor = largest.map_or(&absent, |largest| largest);
    kernels::launch(c"cast_fp8", &[matrix, scale, largest, &rows, &columns], &[]);
    Factor { rows, columns, unscale }
}

/// `a x b` for `a` `[rows, sum]` and the transposed `b` `[columns, sum]`, unscaled, in `kind`.
fn multiply([a, b]: [&Tensor; 2], unscale: [&Tensor; 2], kind: Kind) -> Tensor {
    let aligned = |tensor: &Tensor| tensor.size().iter().all(|extent| extent % ALIGNMENT == 0);
    let sums_align = a.size()[1] % ALIGNMENT == 0;
    if !sums_align || !aligned(b) || !Kernel::Fp8Product.is_trusted() {
        return multiply_wide([a, b], unscale, kind);
    }
    let absent = None::<&Tensor>;
    a.internal_scaled_mm(&b.tr(), unscale[0], unscale[1], absent, absent, kind, false)
}

/// Computes the same by casting back.
fn multiply_wide([a, b]: [&Tensor; 2], unscale: [&Tensor; 2], kind: Kind) -> Tensor {
    let product = a.to_kind(Kind::Float).matmul(&b.tr().to_kind(Kind::Float));
    (product * (unscale[0] * unscale[1])).to_kind(kind)
}

#[cfg(test)]
mod tests {
    use super::super::params::Params;
    use super::super::projection::{Projection, Projections};
    use super::*;

    fn random(size: [i64; 2]) -> Tensor {
        Tensor::randn(size, (Kind::Float, Device::Cpu))
    }

    fn scaling(amax_history_len: usize) -> Arc<Fp8Scaling> {
        let spec = TransformerEngineConfig {
            enable_fp8: true,
            fp8_format: Fp8Format::Hybrid,
            margin: 0.0,
            amax_history_len,
        };
        Arc::new(Fp8Scaling::new(&spec, ["a/kernel", "b/kernel"].into_iter(), Device::Cpu))
    }

    fn relative_error(found: &Tensor, expected: &Tensor) -> f64 {
        ((found - expected).norm() / expected.norm()).double_value(&[])
    }

    /// Returns the product and its gradients, with a loss that weights every number.
    fn results(inputs: &Tensor, kernel: &Tensor, product: &Tensor) -> Vec<Tensor> {
        let weights = Tensor::arange(product.numel() as i64, (Kind::Float, Device::Cpu)).sin();
        let loss = (product.reshape([-1]) * weights).sum(Kind::Float);
        let mut all = Tensor::run_backward(&[loss], &[inputs, kernel], false, false);
        all.push(product.detach());
        all
    }

    /// Rounding to 3 bits of mantissa (2 in gradients) gives relative errors of at most 2^-4 (2^-3)
    /// a factor; over a sum they average out to a third of that or less.
    fn check(scaling: &Arc<Fp8Scaling>, size: [i64; 3]) {
        let [rows, width, out] = size;
        let inputs = (random([rows, width]) * 1e-3).set_requires_grad(true);
        let kernel = (random([width, out]) * 50.0).set_requires_grad(true);
        let expected = results(&inputs, &kernel, &inputs.matmul(&kernel));
        let product = scaling.product("b/kernel").matmul(&inputs, &kernel);
        let found = results(&inputs, &kernel, &product);
        for (found, expected) in found.iter().zip(&expected) {
            let error = relative_error(found, expected);
            assert!((1e-4..0.08).contains(&error), "relative error {error}");
        }
    }

    #[test]
    fn products_and_gradients_stay_near_float32_for_own_and_delayed_scales() {
        let _held = crate::nn::GENERATOR.lock().unwrap_or_else(PoisonError::into_inner);
        tch::manual_seed(5);
        for history in [0, 4] {
            let scaling = scaling(history);
            for size in [[32, 48, 64], [32, 48, 64], [30, 48, 64], [7, 24, 10]] {
                scaling.next_step(&Axes::default());
                check(&scaling, size);
            }
        }
    }

    #[test]
    fn scaled_products_of_libtorch_are_those_of_casting_back() {
        let _held = crate::nn::GENERATOR.lock().unwrap_or_else(PoisonError::into_inner);
        tch::manual_seed(6);
        let cast = |format, size| {
            let matrix = random(size) * 30.0;
            cast_with(&matrix, format, &[3f32, 1.0 / 3.0].map(|of| Tensor::from_slice(&[of])), None)
        };
        for format in [Format::E4m3, Format::E5m2] {
            let (a, b) = (cast(Format::E4m3, [32, 48]), cast(format, [48, 64]));
            let (factors, unscale) = ([&a.rows, &b.columns], [&a.unscale, &b.unscale]);
            let found = multiply(factors, unscale, Kind::Float);
            assert!(relative_error(&found, &multiply_wide(factors, unscale, Kind::Float)) < 1e-6);
        }
    }

    #[test]
    fn too_large_numbers_are_cut_where_torch_alone_would_make_them_infinite() {
        let matrix = Tensor::from_slice(&[1e6f32, -1e6, 3.0, 0.0]).view([2, 2]);
        let ones = [1f32; 2].map(|one| Tensor::from_slice(&[one]));
        let factor = cast_with(&matrix, Format::E5m2, &ones, None);
        let expected = Tensor::from_slice(&[57344f32, -57344.0, 3.0, 0.0]).view([2, 2]);
        assert_eq!(factor.rows.to_kind(Kind::Float), expected);
        assert_eq!(factor.columns.to_kind(Kind::Float), expected.tr());
    }

    #[test]
    fn delayed_scales_follow_the_largest_magnitude_of_the_last_steps() {
        let scaling = scaling(2);
        let product = scaling.product("b/kernel");
        let kernel = Tensor::ones([16, 16], (Kind::Float, Device::Cpu));
        let mut seen = Vec::new();
        for largest in [4.0, 8.0, 2.0, 1.0, 1.0] {
            scaling.next_step(&Axes::default());
            let inputs = Tensor::full([16, 16], largest, (Kind::Float, Device::Cpu));
            let _ = product.matmul(&inputs.set_requires_grad(true), &kernel);
            seen.push(scaling.state().scales.double_value(&[ROLES as i64]));
        }
        // The first step scales by its own magnitude; later ones by the largest of the two before.
        assert_eq!(seen, [0.0, 112.0, 56.0, 56.0, 224.0]);
    }

    #[test]
    fn projections_of_the_same_inputs_are_cast_with_the_scales_of_the_first() {
        let kernels = [("a/kernel", 2.0), ("b/kernel", 5.0)]
            .map(|(name, value)| (name, Tensor::full([16, 16], value, (Kind::Float, Device::Cpu))));
        let params = Params::from_tensors(kernels.map(|(name, kernel)| (name.to_string(), kernel)));
        let spec = scaling(4).spec().clone();
        for expected_scale in [0.0, 89.6] {
            params.begin_fp8(Some(&spec));
            let all = ["a", "b"].map(|name| Projection::new(&params, name, Kind::Float));
            let inputs = Tensor::ones([16, 16], (Kind::Float, Device::Cpu));
            let joined = Projections::new(all.into()).forward(&inputs);
            params.gradients(&joined.parts()[1].sum(Kind::Float));
            let product = params.fp8_product("a/kernel").expect("a pass has begun");
            let state = product.scaling.state();
            let expected = Tensor::from_slice(&[1f32, 5.0, 1.0, 0.0, 0.0, 0.0]);
            assert_eq!(state.largest, expected);
            let found = state.scales.double_value(&[Role::Kernel as i64]);
            assert!((found - expected_scale).abs() < 1e-4, "{found}");
        }
    }

    #[test]
    fn a_copy_is_cast_once_for_all_passes_until_it_changes() {
        let kernel = Tensor::full([16, 16], 2.0, (Kind::Float, Device::Cpu));
        let params = Params::from_tensors([("a/kernel".to_string(), kernel)]);
        // A history of one pass, in which a cast of the pass before must be known.
        let spec = scaling(1).spec().clone();
        let inputs = Tensor::ones([16, 16], (Kind::BFloat16, Device::Cpu));
        let pass = || {
            params.begin_fp8(Some(&spec));
            let product = Projections::of_copy(&params, &[("a", 1.0)], Kind::BFloat16);
            let result =
                product.expect("it is float32").forward(&inputs).wholes()[0].double_value(&[0, 0]);
            let held = params.fp8_product("a/kernel").expect("a pass has begun").scaling;
            let state = held.state();
            let scale = state.scales.double_value(&[Role::Kernel as i64]);
            (result, state.kernels[&0].factor.rows.data_ptr() as usize, scale)
        };
        let first = pass();
        let [second, third] = [(); 2].map(|()| pass());
        assert_eq!((first.0, first.1), (32.0, second.1));
        assert_eq!((second, third), ((32.0, first.1, 224.0), second));
        let _ = tch::no_grad(|| params.get("a/kernel").shallow_clone().g_mul_scalar_(0.5));
        // An evaluation casts the changed kernel for itself.
        assert_eq!(tch::no_grad(pass).0, 16.0);
        assert_eq!(pass().0, 16.0);
        assert_eq!(pass().2, 448.0);
    }

    #[test]
    fn only_passes_that_record_gradients_advance_the_scales() {
        let kernel = Tensor::ones([16, 16], (Kind::Float, Device::Cpu));
        let params = Params::from_tensors([("a/kernel".to_string(), kernel)]);
        let spec = scaling(4).spec().clone();
        let step = || {
            params.begin_fp8(Some(&spec));
            params.fp8_product("a/kernel").unwrap().scaling.state().step
        };
        let steps = [step(), tch::no_grad(step), step(), tch::no_grad(step)];
        assert_eq!(steps, [1, 1, 2, 2]);
    }
}
