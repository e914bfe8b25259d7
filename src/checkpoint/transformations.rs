//! T5X's functions over the state that is restored. They are Python there; the one that T5X makes of an
//! `assignment_map` is known here. Source: T5X `state_utils.py`.

use super::assignment::Rule;
use crate::gin::Configurable;

/// Renames or drops parts of a checkpoint, as `RestoreCheckpointConfig.assignment_map` does. Not applied on
/// resuming. Source: T5X `state_utils.py`.
#[derive(Clone, Debug, PartialEq, Eq, Configurable)]
#[gin(name = "t5x.state_utils.apply_assignment_map")]
pub struct ApplyAssignmentMap {
    /// Pairs of a pattern for names in the model and the name in the checkpoint that it stands for (with
    /// groups, as in Python's `re`), or None to leave it initialized. Every pattern must match.
    pub assignment_map: Vec<Rule>,
}

/// The functions that `RestoreCheckpointConfig.state_transformation_fns` may name.
#[derive(Clone, Debug, PartialEq, Configurable)]
pub enum StateTransformation {
    /// Renames and drops.
    ApplyAssignmentMap(ApplyAssignmentMap),
}

impl StateTransformation {
    /// Its rules, which follow those of the `assignment_map`.
    pub fn rules(&self) -> &[Rule] {
        let Self::ApplyAssignmentMap(map) = self;
        &map.assignment_map
    }
}
