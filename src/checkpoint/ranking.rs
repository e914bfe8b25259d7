//! The metric by which a run ranks its checkpoints, as the newest of them remembers it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use gimlet_storage::Path;

use super::error::CheckpointError;
use super::steps::committed;
use super::stored::RUN_FILE;

/// A metric and its better direction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RankedBy {
    /// The metric, as the run's configuration names it.
    pub metric: String,
    /// Whether a higher value is better.
    pub higher_is_better: bool,
}

/// The values of the metric.
#[derive(Clone, Debug, PartialEq)]
pub struct Ranking {
    /// The metric.
    pub by: RankedBy,
    /// Its value by step, where it is known and finite.
    pub values: BTreeMap<u64, f64>,
    /// The best value, if the run saves its best model and ranks no others.
    pub best_value: Option<f64>,
}

/// The parts of a run's record that tell the ranking.
#[derive(Deserialize)]
struct Recorded {
    ranked_by: Option<RankedBy>,
    #[serde(default)]
    monitored: BTreeMap<u64, Option<f64>>,
    #[serde(default)]
    best: RecordedBest,
}

#[derive(Default, Deserialize)]
struct RecordedBest {
    value: Option<f64>,
}

impl Ranking {
    /// Reads the ranking from the newest checkpoint of a folder; `None` for a run that ranks nothing, or was not Gimlet's.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn of(model_dir: &Path) -> Result<Option<Self>, CheckpointError> {
        let Some((_, newest)) = committed(model_dir)?.pop_last() else { return Ok(None) };
        // A Trainer's file holds its record itself; its best model is a file of its own.
        if !newest.is_dir()? {
            return Ok(None);
        }
        let text = match newest.join(RUN_FILE).read() {
            Err(error) if error.is_not_found() => return Ok(None),
            text => text?,
        };
        let Ok(recorded) = serde_json::from_slice::<Recorded>(&text) else { return Ok(None) };
        let known = recorded.monitored.into_iter().filter_map(|(step, it)| Some((step, it?)));
        let values: BTreeMap<u64, f64> = known.collect();
        let best_value = recorded.best.value.filter(|_| values.is_empty());
        Ok(recorded.ranked_by.map(|by| Self { by, values, best_value }))
    }

    /// Returns the step with the best value, the later of equal ones.
    pub fn best_of<'a>(&self, steps: impl Iterator<Item = &'a u64>) -> Option<u64> {
        let sign = if self.by.higher_is_better { 1.0 } else { -1.0 };
        let known = steps.filter_map(|step| Some((*step, sign * self.values.get(step)?)));
        known.max_by(|(_, one), (_, other)| one.total_cmp(other)).map(|(step, _)| step)
    }
}
