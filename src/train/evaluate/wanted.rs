//! What an evaluation takes of a checkpoint: the parameters, and never the optimizer's state.

use crate::checkpoint::{
    CheckpointError, Mismatch, Plan, RestoreCheckpointConfig, Shapes, Stored, open,
};
use crate::storage::Path;
use crate::train::state_layout::{TARGET, state_variables};

use super::spec::Evaluate;

/// The parameters of a model, as checkpoints hold them.
pub struct Wanted {
    /// How they are restored.
    pub config: RestoreCheckpointConfig,
    needs: Shapes,
    /// What else the state of a training consists of.
    rest: Vec<String>,
}

impl Wanted {
    /// Those of the model that is evaluated.
    pub fn new(spec: &Evaluate) -> Self {
        let params = spec.model.param_tree().into_iter();
        let needs = params.map(|param| (target(&param.name), param.shape));
        // An optimizer whose rules do not cover the model is no matter here.
        let rest = state_variables(&spec.model).unwrap_or_default();
        Self {
            needs: needs.collect(),
            rest: rest.into_iter().map(|variable| format!("state/{}", variable.name)).collect(),
            // The optimizer's state is left unread, in TensorFlow's format too (T5X `eval.py`).
            config: RestoreCheckpointConfig {
                strict: false,
                ..spec.restore_checkpoint_cfg.clone()
            },
        }
    }

    /// Where in the checkpoint they come from.
    ///
    /// # Errors
    /// It holds another model.
    pub fn plan(&self, stored: &dyn Stored) -> Result<Plan, CheckpointError> {
        self.config.plan_part(stored, &self.needs, &self.rest).map_err(|error| match error {
            CheckpointError::OtherModel(mismatch) => CheckpointError::OtherModel(Mismatch {
                extra: parameters(mismatch.extra),
                ..mismatch
            }),
            other => other,
        })
    }

    /// Checks that the checkpoint is there and holds them, as far as that shows without its arrays.
    ///
    /// # Errors
    /// It is not, or does not.
    pub fn check(&self, path: &Path) -> Result<(), CheckpointError> {
        self.plan(open(path)?.as_ref()).map(drop)
    }
}

/// Without the state of an optimizer, which nobody misses.
fn parameters(mut names: Vec<String>) -> Vec<String> {
    names.retain(|name| name.starts_with(TARGET));
    names
}

/// The name of a parameter in T5X's tree.
pub fn target(name: &str) -> String {
    format!("{TARGET}{name}")
}
