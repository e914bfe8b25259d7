//! Exponential means, which most optimizers keep. Source: optax `tree_utils/_tree_math.py`.

use super::expr::{Expr, gradient, scaled_slot, slot};

/// Returns the new mean of `of` in a slot.
pub(super) fn mean(index: usize, of: Expr, decay: f64) -> Expr {
    scaled_slot(index, decay) + of * (1.0 - decay)
}

/// Returns the new mean of squares in a slot.
pub(super) fn mean_square(index: usize, of: &Expr, decay: f64) -> Expr {
    slot(index) * decay + of.square() * (1.0 - decay)
}

/// Returns the first moment of steps from the new mean of gradients: corrected, and one update ahead
/// with `nesterov`.
pub(super) fn first_moment(mean: &Expr, decay: f64, nesterov: bool, updates: i64) -> Expr {
    match nesterov {
        true => ahead(mean, decay, updates),
        false => corrected(mean, decay, updates),
    }
}

/// Returns a mean without the weight of its first value, zero, after that many updates.
pub(super) fn corrected(mean: &Expr, decay: f64, updates: i64) -> Expr {
    mean.clone() / correction(decay, updates)
}

/// Returns the corrected mean one update ahead (Dozat 2016), if the next gradient is the same.
fn ahead(mean: &Expr, decay: f64, updates: i64) -> Expr {
    let kept = mean.clone() * (decay / correction(decay, updates + 1));
    kept + gradient() * ((1.0 - decay) / correction(decay, updates))
}

/// Returns the divisor of [`corrected`]. In float32, as in optax.
fn correction(decay: f64, updates: i64) -> f64 {
    f64::from(1.0 - (decay as f32).powf(updates as f32))
}
