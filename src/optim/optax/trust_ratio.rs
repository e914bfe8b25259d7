//! Steps in proportion to the norm of their parameter. Source: optax `_src/transform.py`
//! (`scale_by_trust_ratio`).

use super::expr::{Expr, param};

/// The numbers of `scale_by_trust_ratio`, with its defaults.
#[derive(Clone, Copy)]
pub(super) struct TrustRatio {
    /// Lower limit of both norms.
    pub(super) min_norm: f64,
    /// Factor of all steps.
    pub(super) trust_coefficient: f64,
    /// Added to the step's norm.
    pub(super) eps: f64,
}

impl Default for TrustRatio {
    fn default() -> Self {
        Self { min_norm: 0.0, trust_coefficient: 1.0, eps: 0.0 }
    }
}

impl TrustRatio {
    /// Returns the step times the ratio of the parameter's norm to its own; if a norm is 0, the step.
    pub(super) fn scale(self, step: Expr) -> Expr {
        let param_norm = param().norm().at_least(self.min_norm);
        let step_norm = step.norm().at_least(self.min_norm);
        let ratio = param_norm.clone() * self.trust_coefficient / (step_norm.clone() + self.eps);
        let neither_is_zero = param_norm.sign() * step_norm.sign();
        step * ratio.if_positive(neither_is_zero, 1.0)
    }
}
