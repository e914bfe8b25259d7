//! The memory that parameters need.

use crate::models::Model;

/// Returns the message for the user if the parameters alone need more than `available` bytes.
pub fn parameter_shortage(model: &Model, available: u64) -> Option<String> {
    let needed = model.num_params().saturating_mul(4);
    (needed > available).then(|| {
        format!(
            "the parameters take {}, and {} are available: use a machine with more memory, or \
             lower {}'s dimensions",
            gib(needed as f64),
            gib(available as f64),
            model.dimensions().configurable,
        )
    })
}

/// Formats bytes for the user.
pub fn gib(bytes: f64) -> String {
    format!("{:.1} GiB", bytes / f64::from(1 << 30))
}
