//! The state of a scale of the loss, which checkpoints keep in a file of Gimlet's.

use serde::{Deserialize, Serialize};

/// The file with the state, beside the arrays.
pub const LOSS_SCALING_FILE: &str = "gimlet/loss_scaling.json";

/// The state of a scale of the loss, and of the updates that it left out.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LossScaling {
    /// The scale of the next step; `None` before the first one.
    pub scale: Option<f64>,
    /// Updates since the scale has changed.
    pub updates: u64,
    /// Steps of the run that made no update, since gradients were not finite.
    #[serde(default)]
    pub skipped: u64,
}
