//! Adafactor's step on tensors, equal to T5X's and transformers' in float32 up to rounding.
//!
//! Memory traffic dominates its cost, so everything happens in place: the gradient's own memory
//! becomes the update, and squares exist only in pieces that stay in the cache. Nothing is read
//! back to the host, which would stall a GPU's queue. A kernel makes the usual updates (`kernel`).

use std::cell::OnceCell;

use tch::{Device, Kind, Tensor};

use super::spec::Adafactor;
use super::transformers::TransformersAdafactor;
use crate::optim::error::OptimError;
use crate::optim::layout::Factored;
use crate::optim::norms::as_dims;
use crate::optim::parts::OwnPart;
use crate::optim::update::{
    Beside, Clipping, Clock, ParamState, Prepare, Prepared, Updated, after_clips,
};

/// Indices of the state's arrays, in the order of the layout's slots.
const M: usize = 0;
pub(super) const V: usize = 1;
pub(super) const V_COL: usize = 2;
pub(super) const V_ROW: usize = 3;

/// The values that all parameters share in one update.
#[derive(Debug)]
pub(super) struct FactoredUpdate {
    pub(super) spec: Adafactor,
    pub(super) learning_rate: f64,
    /// Factor of the old second moment, T5X's beta2.
    pub(super) decay: f64,
    /// Factor of the squared gradient.
    pub(super) mixing: f64,
    pub(super) weight_decay: Option<WeightDecay>,
    /// The values of [`Prepared::rates`] on the parameters' device, once they are there.
    pub(super) rates: OnceCell<Tensor>,
}

/// The decay of the weights by one update, as a fraction of them.
#[derive(Clone, Copy, Debug)]
pub(super) enum WeightDecay {
    /// The same for all parameters.
    Fixed(f64),
    /// In proportion to the size of the parameter's step before it is clipped.
    OfStep(f64),
}

impl FactoredUpdate {
    /// Prepares update number `step`.
    pub(super) fn new(spec: &Adafactor, learning_rate: f32, step: i64) -> Result<Self, OptimError> {
        let step_offset = spec.step_offset;
        if step < step_offset {
            return Err(OptimError::BeforeOffset { step, step_offset });
        }
        // Float32 as in T5X: late in training 1 - decay has few digits, and they matter.
        let steps = (step - step_offset) as f32 + 1.0;
        let decay = match spec.beta2 {
            Some(beta2) => beta2 as f32,
            None => 1.0 - steps.powf(-spec.decay_rate as f32),
        };
        let from_exponent = spec
            .weight_decay_rate_lr_exponent
            .filter(|exponent| *exponent != 0.0)
            .map(|exponent| learning_rate.powf(exponent as f32) as f64);
        let weight_decay = match (from_exponent, spec.weight_decay_rate) {
            // A rate of 0 beside an exponent counts as absent (Python's `or`).
            (Some(power), rate) => Some(power * rate.filter(|r| *r != 0.0).unwrap_or(1.0)),
            (None, rate) => rate,
        };
        Ok(Self {
            spec: spec.clone(),
            learning_rate: learning_rate as f64,
            decay: decay as f64,
            mixing: (1.0 - decay) as f64,
            weight_decay: weight_decay.map(WeightDecay::Fixed),
            rates: OnceCell::new(),
        })
    }

    /// Returns float32 on that device: learning rate, both factors of the second moment, and the factor of the parameter.
    pub(super) fn rates_on(&self, device: Device) -> &Tensor {
        self.rates.get_or_init(|| {
            let rates = self.rates().expect("kernels decay by a fixed rate");
            Tensor::from_slice(&rates).to_device(device)
        })
    }

    /// Updates one parameter and its state. Consumes the gradient's memory.
    pub(super) fn apply_one(
        &self,
        param: &Tensor,
        grad: Tensor,
        state: &mut ParamState,
        beside: Option<Beside>,
    ) {
        if let Some(call) = self.kernel_for(param, state) {
            return self.apply_by_kernel(&call, (param, &grad), state, beside);
        }
        assert!(!self.learning_rate.is_nan(), "no kernel of Adafactor updates {:?}", param.size());
        let mut param = param.shallow_clone();
        let before = self.spec.skip_nan_updates.then(|| {
            let arrays: Vec<Tensor> = state.arrays.iter().map(Tensor::copy).collect();
            (param.copy(), arrays)
        });
        let scale = self.param_scale(&param, state);
        let update = self.precondition(grad, state);
        self.decay_weights(&mut param, &scale);
        let scale = self.clipped(scale, &update, state);
        self.subtract(&mut param, &update, &scale, state);
        if let Some((old_param, old_arrays)) = before {
            keep_where_nan(&mut param, &old_param);
            for (array, old) in state.arrays.iter_mut().zip(&old_arrays) {
                keep_where_nan(array, old);
            }
        }
    }

    /// Returns the learning rate times the parameter's scale, broadcastable to the parameter.
    fn param_scale(&self, param: &Tensor, state: &ParamState) -> Tensor {
        if !self.spec.multiply_by_parameter_scale {
            return Tensor::full([1], self.learning_rate, (Kind::Float, param.device()))
                .reshape(vec![1; param.dim()]);
        }
        let root = state.part.root_mean_square(param, &state.layout.averaged);
        let mut scale = root.clamp_min(self.spec.epsilon2);
        if let Some(greatest) = self.spec.max_parameter_scale {
            scale = scale.clamp_max(greatest);
        }
        scale * self.learning_rate
    }

    /// Returns the gradient over the root of its second moment, in the gradient's own memory.
    fn precondition(&self, mut grad: Tensor, state: &mut ParamState) -> Tensor {
        match &state.layout.factored {
            None => {
                let second = &mut state.arrays[V];
                let square = grad.square().g_add_scalar_(self.spec.epsilon1);
                self.mix(second, square);
                grad.g_mul_(&second.rsqrt())
            }
            Some(factored) => {
                let [rows, columns] =
                    mean_squares(&grad, factored, self.spec.epsilon1, &state.part);
                self.mix(&mut state.arrays[V_ROW], rows);
                self.mix(&mut state.arrays[V_COL], columns);
                let (rows, columns) = (&state.arrays[V_ROW], &state.arrays[V_COL]);
                let row_dims = remaining(&factored.rows, &factored.columns);
                let sum = rows.sum_dim_intlist(row_dims.as_slice(), true, Kind::Float);
                let mean = state.part.sum(sum, &factored.rows) / state.part.extent(&factored.rows);
                let row_factor = expand((rows / mean).rsqrt_(), &factored.columns);
                let column_factor = expand(columns.rsqrt(), &factored.rows);
                grad.g_mul_(&row_factor).g_mul_(&column_factor)
            }
        }
    }

    /// Computes `second = decay * second + mixing * square`.
    fn mix(&self, second: &mut Tensor, mut square: Tensor) {
        let _ = second.g_mul_scalar_(self.decay);
        let _ = second.g_add_(&square.g_mul_scalar_(self.mixing));
    }

    fn decay_weights(&self, param: &mut Tensor, step: &Tensor) {
        let _ = match self.weight_decay {
            Some(WeightDecay::Fixed(rate)) => param.g_mul_scalar_(1.0 - rate),
            Some(WeightDecay::OfStep(rate)) => param.g_mul_(&(1.0 - step * rate)),
            None => return,
        };
    }

    /// Lowers the scale if the update's root mean square exceeds the threshold.
    fn clipped(&self, scale: Tensor, update: &Tensor, state: &ParamState) -> Tensor {
        match self.spec.clipping_threshold {
            Some(threshold) => {
                let root = state.part.root_mean_square(update, &state.layout.averaged);
                scale / (root / threshold).clamp_min(1.0)
            }
            None => scale,
        }
    }

    fn subtract(
        &self,
        param: &mut Tensor,
        update: &Tensor,
        scale: &Tensor,
        state: &mut ParamState,
    ) {
        match self.spec.beta1 {
            Some(beta1) => {
                let momentum = &mut state.arrays[M];
                let _ = momentum.g_mul_scalar_(beta1);
                let _ = momentum.addcmul_(update, &(scale * (1.0 - beta1)));
                let _ = param.g_sub_(momentum);
            }
            None => {
                let _ = param.addcmul_(update, &scale.neg());
            }
        }
    }
}

impl Prepare for Adafactor {
    fn prepare(&self, clock: &Clock) -> Result<Box<dyn Prepared>, OptimError> {
        let clips = self.global_norm_threshold().map(Clipping::GlobalNorm).into_iter().collect();
        let update = FactoredUpdate::new(self, clock.learning_rate, clock.step)?;
        Ok(after_clips(clips, Box::new(update)))
    }
}

impl Prepare for TransformersAdafactor {
    fn prepare(&self, clock: &Clock) -> Result<Box<dyn Prepared>, OptimError> {
        let rate = self.rate(clock.count, clock.learning_rate)?;
        let mixing = ((clock.count + 1) as f64).powf(self.decay_rate);
        let decays = self.weight_decay != 0.0;
        let weight_decay = match self.scale_parameter {
            true => WeightDecay::OfStep(self.weight_decay),
            false => WeightDecay::Fixed(self.weight_decay * rate),
        };
        let spec = Adafactor {
            multiply_by_parameter_scale: self.scale_parameter,
            beta1: self.beta1,
            clipping_threshold: Some(self.clip_threshold),
            epsilon1: self.eps.0,
            epsilon2: self.eps.1,
            ..Adafactor::default()
        };
        Ok(Box::new(FactoredUpdate {
            spec,
            learning_rate: rate,
            decay: 1.0 - mixing,
            mixing,
            weight_decay: decays.then_some(weight_decay),
            rates: OnceCell::new(),
        }))
    }
}

impl Prepared for FactoredUpdate {
    fn rates(&self) -> Option<Vec<f32>> {
        let kept = match self.weight_decay {
            None => 1.0,
            Some(WeightDecay::Fixed(rate)) => 1.0 - rate,
            Some(WeightDecay::OfStep(_)) => return None,
        };
        Some([self.learning_rate, self.decay, self.mixing, kept].map(|rate| rate as f32).into())
    }

    fn read_from(&mut self, rates: Tensor) {
        self.rates = rates.into();
    }

    fn is_fused(&self, _: &str, param: &Tensor, state: &ParamState) -> bool {
        self.kernel_for(param, state).is_some_and(|call| call.fits_copies() || param.dim() == 1)
    }

    fn apply(&self, updated: Vec<Updated<'_>>) {
        for Updated { param, grad, state, beside, .. } in updated {
            self.apply_one(&param, grad, state, beside);
        }
    }
}

/// Returns the mean of `grad^2 + epsilon` over the columns' dimensions, and over the rows'.
fn mean_squares(grad: &Tensor, factored: &Factored, epsilon: f64, part: &OwnPart) -> [Tensor; 2] {
    /// 512 kB of squares stay in a core's cache between being made and being summed.
    const CPU_PIECE: i64 = 1 << 17;
    let rows = match grad.device() {
        tch::Device::Cpu => (CPU_PIECE * grad.size()[0] / grad.numel() as i64).max(1),
        _ => grad.size()[0],
    };
    let mut sums = [Sums::over(&factored.columns), Sums::over(&factored.rows)];
    for piece in grad.split(rows, 0) {
        let square = piece.square().g_add_scalar_(epsilon);
        for sum in &mut sums {
            sum.add(&square);
        }
    }
    let over = [&factored.columns, &factored.rows];
    let [rows, columns] =
        [0, 1].map(|which| part.sum(sums[which].total(), over[which]) / part.extent(over[which]));
    [rows, columns]
}

/// Sums over some dimensions of a tensor that arrives in pieces along dimension 0.
struct Sums {
    dims: Vec<i64>,
    parts: Vec<Tensor>,
}

impl Sums {
    fn over(dims: &[usize]) -> Self {
        Self { dims: as_dims(dims), parts: Vec::new() }
    }

    fn add(&mut self, piece: &Tensor) {
        let sum = piece.sum_dim_intlist(self.dims.as_slice(), false, Kind::Float);
        match self.parts.last_mut() {
            Some(total) if self.dims.contains(&0) => {
                let _ = total.g_add_(&sum);
            }
            _ => self.parts.push(sum),
        }
    }

    fn total(&self) -> Tensor {
        Tensor::cat(&self.parts, 0)
    }
}

/// Returns the positions of `dims` after the removal of `removed`.
fn remaining(dims: &[usize], removed: &[usize]) -> Vec<i64> {
    let before = |dim: usize| removed.iter().filter(|&&gone| gone < dim).count();
    dims.iter().map(|&dim| (dim - before(dim)) as i64).collect()
}

/// Adds `dims` again with size 1.
fn expand(tensor: Tensor, dims: &[usize]) -> Tensor {
    dims.iter().fold(tensor, |tensor, &dim| tensor.unsqueeze(dim as i64))
}

fn keep_where_nan(new: &mut Tensor, old: &Tensor) {
    let kept = old.where_self(&new.isnan(), new);
    new.copy_(&kept);
}
