//! The configurables of optimizers, and the arrays that each keeps for a parameter.

use crate::gin::{Configurable, Evaluator, FromGin, Reported, Value};

use super::factoring::{FactorDim, FactorRules, axes_to_dims, factored_dims};
use super::optax::{AdamW, Chain, LearningRate, PlacedAdamW, Transformation};
use crate::nn::Dtype;

/// Any optimizer a model accepts.
#[derive(Clone, Debug, PartialEq, Configurable)]
pub enum OptimizerDef {
    /// Factored second moments, updates relative to the parameter's scale.
    Adafactor(Adafactor),
    /// Adam with decoupled weight decay.
    AdamW(AdamW),
    /// AdamW after gradient clipping.
    Chain(Chain),
}

impl OptimizerDef {
    /// Returns the state of one parameter.
    ///
    /// # Errors
    /// A shape or axes that the optimizer's rules do not cover.
    pub fn layout(&self, param: ParamShape<'_>) -> Result<StateLayout, OptimError> {
        match self {
            OptimizerDef::Adafactor(spec) => spec.layout(param),
            OptimizerDef::AdamW(spec) => Ok(spec.layout(param)),
            OptimizerDef::Chain(chain) => Ok(chain.adamw()?.adamw.layout(param)),
        }
    }

    /// Finds errors that would end a run at its first update.
    ///
    /// # Errors
    /// Such an error: a chain of another shape, or a schedule without a value.
    pub fn check(&self) -> Result<(), OptimError> {
        match self {
            OptimizerDef::Adafactor(_) => Ok(()),
            OptimizerDef::AdamW(adamw) => adamw.learning_rate(0).map(drop),
            OptimizerDef::Chain(chain) => chain.adamw()?.adamw.learning_rate(0).map(drop),
        }
    }

    /// Returns T5X's path of the array `slot` of a parameter, below `param_states/`.
    pub fn path(&self, param: &str, slot: &str) -> String {
        match self.prefix() {
            None => format!("{param}/{slot}"),
            Some(prefix) => format!("{prefix}0/{slot}/{param}"),
        }
    }

    /// Returns T5X's paths of counts of updates beside `state/step`, below `param_states/`.
    pub fn count_paths(&self) -> Vec<String> {
        let Some(prefix) = self.prefix() else { return Vec::new() };
        let scheduled = matches!(
            self.adamw().map(|placed| &placed.adamw.learning_rate),
            Some(LearningRate::Schedule(_))
        );
        let schedule = scheduled.then(|| format!("{prefix}2/count"));
        std::iter::once(format!("{prefix}0/count")).chain(schedule).collect()
    }

    /// Whether a parameter's update depends on the gradients of others.
    pub fn needs_all_gradients(&self) -> bool {
        match self {
            OptimizerDef::Adafactor(spec) => spec.global_norm_threshold().is_some(),
            OptimizerDef::AdamW(_) => false,
            OptimizerDef::Chain(chain) => {
                let by_norm = |t: &Transformation| matches!(t, Transformation::ClipByGlobalNorm(_));
                chain.transformations.iter().any(by_norm)
            }
        }
    }

    /// Returns the optax transformation with state, if this is a chain of them.
    pub(super) fn adamw(&self) -> Option<PlacedAdamW<'_>> {
        match self {
            OptimizerDef::Adafactor(_) => None,
            OptimizerDef::AdamW(adamw) => Some(PlacedAdamW { adamw, prefix: String::new() }),
            OptimizerDef::Chain(chain) => chain.adamw().ok(),
        }
    }

    fn prefix(&self) -> Option<String> {
        self.adamw().map(|placed| placed.prefix)
    }
}

/// The description of a parameter for optimizers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParamShape<'a> {
    /// Its path, `encoder/layers_0/mlp/wo/kernel`.
    pub name: &'a str,
    /// Its shape.
    pub shape: &'a [usize],
    /// The logical axis of each dimension; read only if a rule needs them.
    pub axes: &'a [&'static str],
}

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
    #[gin(default = None)]
    pub beta1: Option<f64>,
    /// Exponent of the second moment's decay: beta2 is 1 - (step + 1)^-decay_rate.
    #[gin(default = 0.8)]
    pub decay_rate: f64,
    /// The step at which the second moment starts over; that of the checkpoint when fine-tuning.
    #[gin(default = 0)]
    pub step_offset: i64,
    /// Updates whose root mean square exceeds this are scaled down to it; with None never.
    #[gin(default = Some(1.0))]
    pub clipping_threshold: Option<f64>,
    /// Decay of the weights by each step, as a fraction of them.
    #[gin(default = None)]
    pub weight_decay_rate: Option<f64>,
    /// Matrices whose smaller dimension is below this are not factored.
    #[gin(default = 128)]
    pub min_dim_size_to_factor: usize,
    /// Added to the squared gradient.
    #[gin(default = 1e-30)]
    pub epsilon1: f64,
    /// Lower limit of a parameter's scale.
    #[gin(default = 1e-3)]
    pub epsilon2: f64,
    /// Rules by parameter name; only None is supported, since logical_factor_rules do this by axis.
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

    /// Returns the state of one parameter, as T5X's `init_param_state`.
    ///
    /// # Errors
    /// Three or more dimensions without rules, or axes that the rules do not cover.
    pub fn layout(&self, param: ParamShape<'_>) -> Result<StateLayout, OptimError> {
        let rule = match &self.logical_factor_rules {
            Some(rules) if self.factored => Some(axes_to_dims(rules, param)?),
            _ => None,
        };
        let (averaged, factored) = match (self.factored, rule) {
            (false, _) => ((0..param.shape.len()).collect(), None),
            (true, rule) => factored_dims(param, rule.as_deref(), self.min_dim_size_to_factor)?,
        };
        let whole = || param.shape.to_vec();
        // Unused arrays are a single zero, so that every parameter has all four.
        let unused = || vec![1];
        let without = |dims: &[usize]| {
            let kept = param.shape.iter().enumerate().filter(|(dim, _)| !dims.contains(dim));
            kept.map(|(_, size)| *size).collect()
        };
        let m = if self.beta1.is_some() { whole() } else { unused() };
        let (v, v_row, v_col) = match &factored {
            Some(Factored { rows, columns }) => (unused(), without(columns), without(rows)),
            None => (whole(), unused(), unused()),
        };
        let slots = [("m", m), ("v", v), ("v_col", v_col), ("v_row", v_row)];
        let slot = |(name, shape)| Slot { name, shape, dtype: Dtype::Float32 };
        let slots = slots.map(slot).to_vec();
        Ok(StateLayout { slots, averaged, factored })
    }
}

/// The arrays an optimizer keeps for one parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateLayout {
    /// The arrays by name.
    pub slots: Vec<Slot>,
    /// Dimensions of the parameter over which its scale and its update's are averaged: all but
    /// those of stacked layers.
    pub averaged: Vec<usize>,
    /// The factoring of the second moment, if any.
    pub factored: Option<Factored>,
}

impl StateLayout {
    /// The shape of the array of that name.
    pub fn shape(&self, name: &str) -> Option<&[usize]> {
        self.slots.iter().find(|slot| slot.name == name).map(|slot| slot.shape.as_slice())
    }

    /// Returns the total number of elements.
    pub fn num_elements(&self) -> usize {
        self.slots.iter().map(|slot| slot.shape.iter().product::<usize>()).sum()
    }
}

/// One array of an optimizer's state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slot {
    /// Its name in T5X's checkpoints: `m`, `v`, `v_row`, `v_col`; `mu`, `nu`.
    pub name: &'static str,
    /// Its shape; `[1]` if it has no use.
    pub shape: Vec<usize>,
    /// The storage format.
    pub dtype: Dtype,
}

/// The two sets of dimensions of a factored second moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Factored {
    /// Dimensions that `v_row` keeps and over which `v_col` is averaged; T5X's d1.
    pub rows: Vec<usize>,
    /// Dimensions that `v_col` keeps and over which `v_row` is averaged; T5X's d0.
    pub columns: Vec<usize>,
}

/// T5X's rules by parameter name, which are not supported here.
#[derive(Clone, Debug, PartialEq)]
pub enum HParamMap {}

impl FromGin for HParamMap {
    fn expected() -> String {
        "no rules by parameter name (use logical_factor_rules)".to_string()
    }

    fn from_gin(value: &Value, cx: &mut Evaluator<'_>) -> Result<Self, Reported> {
        Err(cx.mismatch(value, "None: rules by parameter name are not supported"))
    }
}

/// An optimizer that does not fit its parameters.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OptimError {
    /// Three or more dimensions and no rule.
    #[error(
        "parameter `{name}` of shape {shape:?} needs a factorization rule, since it has more than \
         two dimensions; bind `adafactor.Adafactor.logical_factor_rules = \
         @adafactor.standard_logical_factor_rules()`"
    )]
    NeedsRule {
        /// The parameter.
        name: String,
        /// Its shape.
        shape: Vec<usize>,
    },
    /// An axis that the rules do not name.
    #[error("`logical_factor_rules` has no rule for axis `{axis}` of parameter `{name}`")]
    UnknownAxis {
        /// The parameter.
        name: String,
        /// The axis.
        axis: String,
    },
    /// Rows, columns and a dimension that is neither.
    #[error(
        "`logical_factor_rules` give parameter `{name}` rows, columns and a dimension that is \
         neither ({dims:?} for {axes:?}); mark the latter row, column or batch"
    )]
    Incomplete {
        /// The parameter.
        name: String,
        /// Its axes.
        axes: Vec<&'static str>,
        /// Their rules.
        dims: Vec<FactorDim>,
    },
    /// Axes and shape differ in rank.
    #[error("parameter `{name}` has {axes} logical axes and {rank} dimensions")]
    Rank {
        /// The parameter.
        name: String,
        /// Number of axes.
        axes: usize,
        /// Number of dimensions.
        rank: usize,
    },
    /// A step at which the decay has no value.
    #[error(
        "step {step} lies before `adafactor.Adafactor.step_offset` ({step_offset}), where the \
         second moment starts; bind the step of the restored checkpoint, or 0"
    )]
    BeforeOffset {
        /// The step.
        step: i64,
        /// The step at which the second moment starts.
        step_offset: i64,
    },
    /// Transformations that are not supported, or not in their order.
    #[error(
        "`optimizers.chain.transformations` are [{found}], expected any number of @optax.clip() and \
         @optax.clip_by_global_norm(), then one @optax.adamw()"
    )]
    Chain {
        /// Their names.
        found: String,
    },
    /// A schedule that cannot be computed.
    #[error("the learning rate of `optax.adamw`: {0}")]
    Schedule(String),
    /// A gradient or an array for a parameter that the optimizer does not know.
    #[error("the optimizer has no parameter `{name}`")]
    UnknownParam {
        /// The parameter, or the array's path.
        name: String,
    },
    /// A checkpoint of another model or another configuration of the optimizer.
    #[error(
        "optimizer state `{name}` has shape {found:?}, expected {expected:?}; was the checkpoint \
         written with other settings of the optimizer?"
    )]
    Shape {
        /// The array's path.
        name: String,
        /// The shape given.
        found: Vec<usize>,
        /// The shape of this configuration.
        expected: Vec<usize>,
    },
}
