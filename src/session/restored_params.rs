//! The part of a checkpoint that commands without training need: the parameters, without the optimizer's
//! state.

use crate::checkpoint::{
    CheckpointError, Mismatch, Plan, RestoreCheckpointConfig, Shapes, Stored, TARGET, arranged,
    upcycled,
};
use crate::models::{Model, open};
use crate::storage::Path;

use super::described::ModelFacts;
use super::error::SessionError;
use super::given_rows::GivenParams;
use super::state_layout::{state_variables, target};

/// The parameters of a model, as they are named in checkpoints.
pub struct RestoredParams {
    /// Options of the restoration.
    pub config: RestoreCheckpointConfig,
    needs: Shapes,
    /// Those whose values arrays give where a checkpoint does not have them.
    given: GivenParams,
    facts: ModelFacts,
    /// Names of the other variables in the state of a training.
    rest: Vec<String>,
}

impl RestoredParams {
    /// Returns the parameters of a model. `config.strict` has no effect.
    pub fn new(model: &Model, config: &RestoreCheckpointConfig) -> Self {
        let params = model.param_tree().into_iter();
        let needs = params.map(|param| (target(&param.name), param.shape));
        // Here it does not matter if the optimizer's rules do not cover the model.
        let rest = state_variables(model).unwrap_or_default();
        Self {
            needs: needs.collect(),
            given: GivenParams::of(model),
            facts: ModelFacts::of(model),
            rest: rest.into_iter().map(|variable| format!("state/{}", variable.name)).collect(),
            // The optimizer's state is not read, in TensorFlow's format too (T5X `eval.py`).
            config: RestoreCheckpointConfig { strict: false, ..config.clone() },
        }
    }

    /// Returns the plan of reading them from the checkpoint.
    ///
    /// # Errors
    /// The checkpoint holds another model, or an array that gives the values of rows does not fit.
    pub fn plan(&self, stored: &dyn Stored) -> Result<Plan, SessionError> {
        self.facts.check(stored)?;
        let mut needs = self.needs.clone();
        // A file holds the whole prompt, so that the model that it is for needs no seed and no rule.
        let of_files: Vec<String> = match self.config.fallback_to_scratch {
            true => Vec::new(),
            false => {
                let held = stored.shapes();
                self.given.of_arrays().filter(|name| !held.contains_key(name)).collect()
            }
        };
        needs.retain(|name, _| !of_files.contains(name));
        let plan = self.config.plan_part(stored, &needs, &self.rest);
        let mut plan = plan.map_err(|error| match error {
            CheckpointError::OtherModel(mismatch) => CheckpointError::OtherModel(Mismatch {
                extra: parameters(mismatch.extra),
                ..mismatch
            }),
            other => other,
        })?;
        plan.from_scratch.extend(of_files);
        self.given(&plan).check()?;
        Ok(plan)
    }

    /// The parameters whose values arrays give, and which the checkpoint does not have.
    pub fn given(&self, plan: &Plan) -> GivenParams {
        self.given.clone().new_in(Some(plan))
    }

    /// Checks that the checkpoint exists and contains the parameters, as far as possible without
    /// its arrays, and returns its step.
    ///
    /// # Errors
    /// The checkpoint does not exist, or does not contain them.
    pub fn check(&self, path: &Path) -> Result<u64, SessionError> {
        let stored = self.open(path)?;
        self.plan(stored.as_ref())?;
        Ok(stored.step()?)
    }

    /// Opens a checkpoint, with its parameters in the arrays of the model.
    ///
    /// # Errors
    /// The checkpoint does not exist.
    pub fn open(&self, path: &Path) -> Result<Box<dyn Stored>, CheckpointError> {
        Ok(upcycled(arranged(open(path)?, &self.needs), &self.config, &self.needs))
    }
}

/// Removes the state of an optimizer.
fn parameters(mut names: Vec<String>) -> Vec<String> {
    names.retain(|name| name.starts_with(TARGET));
    names
}
