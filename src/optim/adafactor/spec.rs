//! Adafactor's parameters and the layout of its state.

use crate::gin::Configurable;
use crate::nn::Dtype;
use crate::optim::error::OptimError;
use crate::optim::layout::{Factored, ParamShape, Slot, StateLayout};
use crate::optim::rule::Rule;

use super::factoring::{FactorRules, NamedRules, axes_to_dims, factored_dims};

/// Adafactor (Shazeer & Stern 2018, arXiv:1804.04235) as in T5X. Source: T5X `adafactor.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(
    name = "t5x.adafactor.Adafactor",
    ignored(learning_rate = "the Trainer's learning_rate_fn gives it at each step"),
    ignored(dtype_momentum = "momentum is always float32")
)]
pub struct Adafactor {
    /// Keep row and column means of the second moment instead of the whole of it.
    #[gin(default = true)]
    pub factored: bool,
    /// Take steps relative to the root mean square of the parameter.
    #[gin(default = true)]
    pub multiply_by_parameter_scale: bool,
    /// Decay of the momentum, between 0 and 1; with None there is no momentum, which saves memory.
    #[gin(default = None, limit = BelowOne)]
    pub beta1: Option<f64>,
    /// Exponent of the second moment's decay: beta2 is 1 - (step + 1)^-decay_rate.
    #[gin(default = 0.8)]
    pub decay_rate: f64,
    /// The second moment's decay at every step, instead of that of `decay_rate`. Mesh TensorFlow's `decay_rate` is this.
    #[gin(default = None, limit = BelowOne)]
    pub beta2: Option<f64>,
    /// The step at which the second moment starts over; that of the checkpoint when fine-tuning.
    #[gin(default = 0)]
    pub step_offset: i64,
    /// Updates whose root mean square exceeds this are scaled down to it; with None never.
    #[gin(default = Some(1.0))]
    pub clipping_threshold: Option<f64>,
    /// Decay of the weights by each step, as a fraction of them.
    #[gin(default = None, limit = NonNegative)]
    pub weight_decay_rate: Option<f64>,
    /// Matrices whose smaller dimension is below this are not factored.
    #[gin(default = 128)]
    pub min_dim_size_to_factor: usize,
    /// Added to the squared gradient.
    #[gin(default = 1e-30, limit = NonNegative)]
    pub epsilon1: f64,
    /// Lower limit of a parameter's scale.
    #[gin(default = 1e-3, limit = NonNegative)]
    pub epsilon2: f64,
    /// Rules for parameters; `logical_factor_rules` win over them.
    #[gin(default = None)]
    pub factor_map: Option<HParamMap>,
    /// Factoring of each logical axis; needed for parameters of three or more dimensions.
    #[gin(default = None)]
    pub logical_factor_rules: Option<FactorRules>,
    /// Weight decay proportional to this power of the learning rate.
    #[gin(default = None)]
    pub weight_decay_rate_lr_exponent: Option<f64>,
    /// Gradients whose norm over all parameters exceeds this are scaled down to it.
    #[gin(default = None)]
    pub global_norm_clip_threshold: Option<f64>,
    /// Upper limit of a parameter's scale.
    #[gin(default = None)]
    pub max_parameter_scale: Option<f64>,
    /// Do not change elements whose new value would be NaN.
    #[gin(default = false)]
    pub skip_nan_updates: bool,
}

impl Default for Adafactor {
    /// T5X's defaults.
    fn default() -> Self {
        Self {
            factored: true,
            multiply_by_parameter_scale: true,
            beta1: None,
            decay_rate: 0.8,
            beta2: None,
            step_offset: 0,
            clipping_threshold: Some(1.0),
            weight_decay_rate: None,
            min_dim_size_to_factor: 128,
            epsilon1: 1e-30,
            epsilon2: 1e-3,
            factor_map: None,
            logical_factor_rules: None,
            weight_decay_rate_lr_exponent: None,
            global_norm_clip_threshold: None,
            max_parameter_scale: None,
            skip_nan_updates: false,
        }
    }
}

impl Adafactor {
    /// Returns the greatest joint norm of gradients; 0 means none (as in Python).
    pub(super) fn global_norm_threshold(&self) -> Option<f64> {
        self.global_norm_clip_threshold.filter(|threshold| *threshold != 0.0)
    }
}

impl Rule for Adafactor {
    /// Returns the state of one parameter, as T5X's `init_param_state`.
    /// Fails for three or more dimensions without rules, and for axes that the rules do not cover.
    fn layout(&self, param: ParamShape<'_>) -> Result<StateLayout, OptimError> {
        let of_map = || Some(FactorRules::Named(self.factor_map.as_ref()?.rules.clone()));
        let rule = match &self.logical_factor_rules.clone().or_else(of_map) {
            Some(rules) if self.factored => Some(axes_to_dims(rules, param)?),
            _ => None,
        };
        let (averaged, factored) = match (self.factored, rule) {
            (false, _) => ((0..param.shape.len()).collect(), None),
            (true, rule) => factored_dims(param, rule.as_deref(), self.min_dim_size_to_factor)?,
        };
        let slots = slots(param.shape, factored.as_ref(), self.beta1);
        Ok(StateLayout { slots, averaged, factored })
    }

    fn needs_all_gradients(&self) -> bool {
        self.global_norm_threshold().is_some()
    }

    fn needs_whole_params(&self) -> bool {
        true
    }

    fn skips_nan_updates(&self) -> bool {
        self.skip_nan_updates
    }
}

/// Returns the arrays of a parameter.
pub(super) fn slots(shape: &[usize], factored: Option<&Factored>, beta1: Option<f64>) -> Vec<Slot> {
    // Unused arrays are a single zero, so that every parameter has all four.
    let (whole, unused) = (|| Some((0..shape.len()).collect()), || None);
    let without =
        |dims: &[usize]| Some((0..shape.len()).filter(|dim| !dims.contains(dim)).collect());
    let m = if beta1.is_some() { whole() } else { unused() };
    let (v, v_row, v_col) = match factored {
        Some(Factored { rows, columns }) => (unused(), without(columns), without(rows)),
        None => (whole(), unused(), unused()),
    };
    let slot = |(name, dims): (&'static str, Option<Vec<usize>>)| {
        let kept = |dims: &Vec<usize>| dims.iter().map(|&dim| shape[dim]).collect();
        let shape = dims.as_ref().map_or_else(|| vec![1], kept);
        Slot { name, shape, dims, dtype: Dtype::Float32, initial: 0.0 }
    };
    [("m", m), ("v", v), ("v_col", v_col), ("v_row", v_row)].map(slot).to_vec()
}

/// Rules for parameters. T5X tells parameters apart by patterns of their names; its own rules mean what those by logical
/// axes do, and patterns of a user's are not read. Source: T5X `adafactor.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "t5x.adafactor.HParamMap")]
pub struct HParamMap {
    /// The rules.
    pub rules: NamedRules,
}
