//! Adafactor, the optimizer of every published run.

use gimlet_gin::{Configurable, Evaluator, FromGin, Registry, Reported, Slot, Value, ValueKind};

/// Any optimizer.
#[derive(Clone, Debug, PartialEq, Configurable)]
pub enum Optimizer {
    /// Adafactor.
    Adafactor(AdafactorOptimizer),
}

/// Adafactor (Shazeer & Stern 2018, arXiv:1804.04235). Source: mesh `optimize.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(
    name = "mesh_tensorflow.optimize.AdafactorOptimizer",
    ignored(
        learning_rate = "`run.learning_rate_schedule` gives it",
        stacked_dim_names = "variables are never stacked"
    )
)]
pub struct AdafactorOptimizer {
    /// Whether steps are relative to the root mean square of the parameter.
    #[gin(default = true)]
    pub multiply_by_parameter_scale: bool,
    /// Decay of the second moment: a constant, or `@adafactor_decay_rate_pow()`; None is the latter's default.
    #[gin(default = None)]
    pub decay_rate: Option<DecayRate>,
    /// Decay of the momentum; 0.0 has none.
    #[gin(default = 0.0)]
    pub beta1: f64,
    /// Updates whose root mean square exceeds this are scaled down to it.
    #[gin(default = Some(1.0))]
    pub clipping_threshold: Option<f64>,
    /// Whether row and column means stand for the second moment.
    #[gin(default = true)]
    pub factored: bool,
    /// Added to the squared gradient.
    #[gin(default = 1e-30)]
    pub epsilon1: f64,
    /// Lower limit of a parameter's scale.
    #[gin(default = 1e-3)]
    pub epsilon2: f64,
    /// Matrices whose smaller dimension is below this are not factored.
    #[gin(default = 128)]
    pub min_dim_size_to_factor: u64,
    /// Only None is supported.
    #[gin(default = None)]
    pub exclude_from_parameter_scale: Option<NoExclusion>,
}

/// The decay of the second moment by step: 1 - (step + 1 - offset)^-exponent. Source: mesh `optimize.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "mesh_tensorflow.optimize.adafactor_decay_rate_pow")]
pub struct AdafactorDecayRatePow {
    /// The exponent.
    #[gin(default = 0.8)]
    pub exponent: f64,
    /// The step at which the second moment starts over.
    #[gin(default = 0)]
    pub offset: i64,
}

/// The decay of the second moment.
#[derive(Clone, Debug, PartialEq)]
pub enum DecayRate {
    /// A constant.
    Constant(f64),
    /// A function of the step.
    Power(AdafactorDecayRatePow),
}

impl FromGin for DecayRate {
    fn expected() -> String {
        "a float or @adafactor_decay_rate_pow()".to_string()
    }

    fn from_gin(value: &Value, cx: &mut Evaluator<'_>) -> Result<Self, Reported> {
        match &value.kind {
            ValueKind::Reference(_) => cx.read(value).map(Self::Power),
            _ => cx.read(value).map(Self::Constant),
        }
    }

    fn register(registry: &mut Registry) {
        AdafactorDecayRatePow::register_slot(registry);
    }
}

/// A value that no run may bind: parameters without scale of their own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoExclusion;

impl FromGin for NoExclusion {
    fn expected() -> String {
        "nothing else".to_string()
    }

    fn from_gin(value: &Value, cx: &mut Evaluator<'_>) -> Result<Self, Reported> {
        Err(cx.unfit_because(value, "None", "every parameter has a scale of its own"))
    }
}
