//! The files of a run in its checkpoints, which let a resumed run continue unchanged: its seed, first step and
//! histories of actions, and the place in the data.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::checkpoint::{CheckpointError, RankedBy, Stored};

use super::best::BestSoFar;
use super::plateau::Plateau;

/// The place in the data. All processes read the same batches and take their rows of them, so that the place
/// does not depend on their number.
pub const DATA_FILE: &str = "gimlet/train_ds-000-of-001.json";

/// By phase, the values that each action has looked at; `None` for NaN and infinite values, which
/// JSON cannot express.
pub type Histories = BTreeMap<String, Vec<Vec<Option<f64>>>>;

/// The metric that decides which checkpoints are kept, by step; `None` for NaN and infinite values, which
/// JSON cannot express.
pub type Monitored = BTreeMap<u64, Option<f64>>;

/// The facts that a resumed run needs to continue unchanged.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunRecord {
    /// The step at which the run began: 0, or that of the checkpoint it was fine-tuned from.
    pub first_step: u64,
    /// Seed of every draw.
    pub seed: u64,
    /// The histories of the actions.
    #[serde(default)]
    pub histories: Histories,
    /// The metric that decides which checkpoints stay, by step.
    #[serde(default)]
    pub monitored: Monitored,
    /// The metric by which the run ranks its models, if it does.
    #[serde(default, skip_serializing_if = "is_default")]
    pub ranked_by: Option<RankedBy>,
    /// The best value of the metric of `train.best`.
    #[serde(default, skip_serializing_if = "is_default")]
    pub best: BestSoFar,
    /// The state of `train.reduce_on_plateau`.
    #[serde(default, skip_serializing_if = "is_default")]
    pub plateau: Plateau,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// Reads one of Gimlet's files in a checkpoint; `None` if there is none.
///
/// # Errors
/// The file is damaged.
pub fn read_json<T: for<'de> Deserialize<'de>>(
    stored: &dyn Stored,
    file: &str,
) -> Result<Option<T>, CheckpointError> {
    let Some(bytes) = stored.extra(file)? else { return Ok(None) };
    serde_json::from_slice(&bytes).map(Some).map_err(|error| CheckpointError::Damaged {
        path: stored.path().to_string(),
        reason: format!("{file}: {error}"),
    })
}
