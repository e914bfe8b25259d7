//! Adafactor's update by `bridge/kernels/adafactor.cu` or, on a CPU, `adafactor.cpp`.
//!
//! On a GPU it launches four kernels for a matrix and one for a vector, instead of one for each operation of
//! libtorch's. There is one call for each parameter rather than for lists of them (`_foreach_*`),
//! for two reasons: an update inside the backward pass has only one gradient, and lists would keep
//! whole squares and updates of all parameters in memory between operations, while the kernel keeps
//! only sums.

use std::ffi::CStr;

use tch::{Kind, Tensor};

use super::update::{FactoredUpdate, V, V_COL, V_ROW};
use crate::nn::fused::kernels::{self, Kernel};
use crate::optim::layout::{Factored, StateLayout};
use crate::optim::update::{Beside, ParamState, Prepared};

/// The longest vector that one block of the device handles.
const LONGEST_VECTOR: usize = 1 << 14;

const MATRIX: &CStr = c"adafactor_matrix";

/// A call of a kernel.
#[derive(Debug, PartialEq)]
pub(super) struct Call {
    name: &'static CStr,
    /// The arrays of the state that follow gradient and parameter, before the rates: the moment of a vector; for a
    /// matrix, those of its rows and of its columns in memory order.
    moments: Vec<usize>,
    numbers: Vec<f64>,
}

impl Call {
    /// Whether the kernel reads the gradient of a copy, and writes the copy.
    pub(super) fn fits_copies(&self) -> bool {
        self.name == MATRIX
    }
}

impl FactoredUpdate {
    /// Returns the call of a kernel that updates a parameter with that state, if one can do it.
    pub(super) fn kernel_for(&self, param: &Tensor, state: &ParamState) -> Option<Call> {
        let is_dense = param.is_contiguous() && state.part.is_whole();
        let suits = is_dense && kernels::suit(Kernel::Adafactor, param, i64::MAX);
        suits.then(|| self.call(&state.layout, &param.size())).flatten()
    }

    /// Updates parameter and state by a kernel.
    pub(super) fn apply_by_kernel(
        &self,
        call: &Call,
        (param, grad): (&Tensor, &Tensor),
        state: &ParamState,
        beside: Option<Beside>,
    ) {
        let moments = call.moments.iter().map(|&index| &state.arrays[index]);
        let absent = Tensor::new();
        let (squares, copy) = match &beside {
            Some(Beside { squares, copy }) => (squares, copy.as_ref()),
            None => (&absent, None),
        };
        let after = [self.rates_on(param.device()), squares];
        let mut tensors: Vec<&Tensor> =
            [grad, param].into_iter().chain(moments).chain(after).collect();
        let mut numbers = call.numbers.clone();
        if call.fits_copies() {
            tensors.push(copy.map_or(&absent, |copy| &copy.values));
            let factor = copy.map_or(1.0, |copy| copy.factor);
            let of_copy = grad.kind() == Kind::BFloat16;
            numbers.extend([if of_copy { factor } else { 1.0 }, factor]);
        }
        kernels::launch(call.name, &tensors, &numbers);
    }

    /// Returns the call that updates a parameter of that size by a kernel, if one can do it.
    fn call(&self, layout: &StateLayout, size: &[i64]) -> Option<Call> {
        let (spec, rank) = (&self.spec, size.len());
        let whole = (0..rank).eq(layout.averaged.iter().copied());
        if spec.skip_nan_updates || spec.beta1.is_some() || !whole {
            return None;
        }
        self.rates()?;
        let mut numbers = vec![
            spec.epsilon1,
            f64::from(u8::from(spec.multiply_by_parameter_scale)),
            spec.epsilon2,
            spec.max_parameter_scale.unwrap_or(f64::INFINITY),
            spec.clipping_threshold.unwrap_or(f64::INFINITY),
        ];
        let Some(Factored { rows, columns }) = &layout.factored else {
            let is_short = size.iter().product::<i64>() <= LONGEST_VECTOR as i64;
            let name = c"adafactor_vector";
            return is_short.then_some(Call { name, moments: vec![V], numbers });
        };
        let ([row], [_], 2) = (&rows[..], &columns[..], rank) else { return None };
        // The kernel's rows are those in memory; `v_row` is the moment that is divided by its mean.
        let row_is_first = *row == 0;
        numbers.push(f64::from(u8::from(row_is_first)));
        let moments = if row_is_first { [V_ROW, V_COL] } else { [V_COL, V_ROW] };
        Some(Call { name: MATRIX, moments: moments.to_vec(), numbers })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::optim::OwnPart;
    use crate::optim::rule::Rule as _;
    use crate::optim::{Adafactor, ParamShape};
    use tch::Device;

    /// Computes the formulas of the kernel, one after the other, for the arguments of its call.
    fn stand_in(call: &Call, tensors: &[Tensor]) {
        let [epsilon, scaled, least, greatest, threshold, ..] = call.numbers[..] else {
            panic!("a rule has five numbers");
        };
        let (rates, tensors) = tensors.split_last().expect("the rates come last");
        let [rate, decay, mixing, kept] = Vec::<f64>::try_from(rates).unwrap()[..] else {
            panic!("a rule has four rates");
        };
        let (grad, mut param) = (&tensors[0], tensors[1].shallow_clone());
        let squares = grad.square() + epsilon;
        let mix = |moment: &Tensor, squares: Tensor| {
            let mut moment = moment.shallow_clone();
            moment.copy_(&(&moment * decay + squares * mixing));
            moment
        };
        let update = match &tensors[2..] {
            [moment] => grad * mix(moment, squares).rsqrt(),
            [rows, columns] => {
                let rows = mix(rows, squares.mean_dim(1, false, Kind::Float));
                let columns = mix(columns, squares.mean_dim(0, false, Kind::Float));
                let over_mean = |moment: Tensor| &moment / moment.mean(Kind::Float);
                let (rows, columns) = match call.numbers[5] {
                    0.0 => (rows, over_mean(columns)),
                    _ => (over_mean(rows), columns),
                };
                grad * rows.rsqrt().unsqueeze(1) * columns.rsqrt()
            }
            _ => panic!("a vector has one moment and a matrix two"),
        };
        let rms = |tensor: &Tensor| tensor.square().mean(Kind::Float).sqrt();
        let scale = if scaled == 1.0 {
            rms(&param).clamp(least, greatest)
        } else {
            rms(&param).ones_like()
        };
        let size = scale * rate / (rms(&update) / threshold).clamp_min(1.0);
        param.copy_(&(&param * kept - update * size));
    }

    fn specs() -> Vec<Adafactor> {
        let plain = Adafactor::default();
        vec![
            Adafactor {
                clipping_threshold: None,
                max_parameter_scale: Some(0.01),
                ..plain.clone()
            },
            Adafactor {
                multiply_by_parameter_scale: false,
                weight_decay_rate: Some(0.1),
                ..plain.clone()
            },
            plain,
        ]
    }

    #[test]
    fn a_kernel_called_so_does_what_the_operations_do() {
        let _held = crate::nn::GENERATOR.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        tch::manual_seed(5);
        for shape in [&[128usize, 136][..], &[136, 128], &[128, 128], &[24], &[4, 32]] {
            for spec in specs() {
                check(&spec, shape);
            }
        }
    }

    fn check(spec: &Adafactor, shape: &[usize]) {
        let axes: &[&'static str] = &["embed", "mlp"][..shape.len()];
        let layout = spec.layout(ParamShape { name: "x", shape, axes }).unwrap();
        let size: Vec<i64> = shape.iter().map(|&extent| extent as i64).collect();
        let random = |size: &[i64]| Tensor::randn(size, (Kind::Float, Device::Cpu));
        let (first, grad) = (random(&size), random(&size));
        let arrays = layout.slots.iter().map(|slot| {
            let size: Vec<i64> = slot.shape.iter().map(|&extent| extent as i64).collect();
            random(&size).square()
        });
        let mut state =
            ParamState { arrays: arrays.collect(), layout, part: OwnPart::whole(shape) };
        let update = FactoredUpdate::new(spec, 0.1, 7).unwrap();
        let call = update.call(&state.layout, &size).expect("a kernel does it");
        let mut tensors = vec![grad.copy(), first.copy()];
        tensors.extend(call.moments.iter().map(|&index| state.arrays[index].copy()));
        tensors.push(update.rates_on(Device::Cpu).shallow_clone());
        stand_in(&call, &tensors);
        tensors.pop();
        let param = first.copy();
        update.apply_one(&param, grad, &mut state, None);
        let mut expected = vec![param];
        expected.extend(call.moments.iter().map(|&index| state.arrays[index].shallow_clone()));
        for (found, expected) in tensors[1..].iter().zip(&expected) {
            let error = (found - expected).norm() / expected.norm();
            assert!(error.double_value(&[]) < 1e-6, "{shape:?} {spec:?}: {error:?}");
        }
        assert_ne!(tensors[1], first);
    }

    #[test]
    fn what_no_kernel_does_is_left_to_the_operations() {
        let refused = |spec: Adafactor, shape: &[usize]| {
            let axes: &[&'static str] = &["embed", "mlp"][..shape.len()];
            let layout = spec.layout(ParamShape { name: "x", shape, axes }).unwrap();
            let size: Vec<i64> = shape.iter().map(|&extent| extent as i64).collect();
            assert_eq!(FactoredUpdate::new(&spec, 0.1, 0).unwrap().call(&layout, &size), None);
        };
        let plain = Adafactor::default;
        refused(Adafactor { beta1: Some(0.9), ..plain() }, &[128, 128]);
        refused(Adafactor { skip_nan_updates: true, ..plain() }, &[128, 128]);
        refused(Adafactor { factored: false, ..plain() }, &[256, 128]);
    }
}
