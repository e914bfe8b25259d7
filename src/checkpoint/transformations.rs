//! T5X's functions that transform the restored state. They are Python functions in T5X; only the
//! one that T5X builds from an `assignment_map` is supported here. Source: T5X `state_utils.py`.

use super::assignment::Rule;
use gimlet_gin::Configurable;

/// Renames or drops parts of a checkpoint, as `RestoreCheckpointConfig.assignment_map` does. Not applied on
/// resuming. Source: T5X `state_utils.py`.
#[derive(Clone, Debug, PartialEq, Eq, Configurable)]
#[gin(
    name = "t5x.state_utils.apply_assignment_map",
    ignored(
        ckpt_optimizer_state = "the run gives it",
        optimizer_state = "the run gives it",
        is_resuming = "the run gives it",
        require_all_rules_match = "every pattern must match"
    )
)]
pub struct ApplyAssignmentMap {
    /// Pairs of a pattern for names in the model and the name in the checkpoint to read instead (with
    /// groups, as in Python's `re`), or None to leave the array initialized. Every pattern must match.
    pub assignment_map: Vec<Rule>,
}

/// The functions allowed in `RestoreCheckpointConfig.state_transformation_fns`.
#[derive(Clone, Debug, PartialEq, Configurable)]
pub enum StateTransformation {
    /// Renames and drops arrays.
    ApplyAssignmentMap(ApplyAssignmentMap),
}

impl StateTransformation {
    /// Its rules, which follow those of the `assignment_map`.
    pub fn rules(&self) -> &[Rule] {
        let Self::ApplyAssignmentMap(map) = self;
        &map.assignment_map
    }
}
