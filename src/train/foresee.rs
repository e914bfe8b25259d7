//! Errors that would keep a run from starting, found for `--dry_run` in the same way as by the run,
//! but without libtorch and without reading data. Checkpoints are opened and vocabularies loaded;
//! of data files, only names are checked.

use crate::checkpoint::{RestoreCheckpointConfig, Shapes, Stored, resumable_steps};
use crate::data::TaskProvider;
use crate::session::error::SessionError;
use crate::session::foresee::foresee_data;
use crate::session::state_layout::STEP;
use crate::storage::Path;
use crate::telemetry;

use super::initial::initial;
use super::periods::Periods;
use super::spec::Train;

/// Returns the step at which a training would start.
///
/// # Errors
/// The errors of the training: a missing checkpoint, task, split or vocabulary, a vocabulary that
/// differs from the model's or exceeds its embedding, a last step that has passed already.
pub fn foresee(spec: &Train, tasks: &dyn TaskProvider) -> Result<u64, SessionError> {
    let step = first_step(spec)?;
    Periods::of(spec, 0, step).validated(step)?;
    let held_out = [&spec.train_eval_dataset_cfg, &spec.infer_eval_dataset_cfg];
    for config in held_out.into_iter().flatten() {
        if let Err(unknown) = foresee_data(&spec.model, config, tasks)? {
            telemetry::notice_once(&format!("{unknown}: it is not evaluated"));
        }
    }
    foresee_data(&spec.model, &spec.train_dataset_cfg, tasks)??;
    Ok(step)
}

/// Returns the step of the newest checkpoint in MODEL_DIR, else of the configured one, else 0.
fn first_step(spec: &Train) -> Result<u64, SessionError> {
    let model_dir = Path::parse(&spec.model_dir)?;
    if model_dir.is_dir()?
        && let Some(step) = resumable_steps(&model_dir)?.last()
    {
        return Ok(*step);
    }
    let Some(restore) = &spec.checkpoint_cfg.restore else { return Ok(0) };
    Ok(match initial(restore, &spec.model)? {
        Some(stored) if takes_step(restore, &*stored) => stored.step()?,
        _ => 0,
    })
}

/// Whether a run that restores a checkpoint continues at its step: the step exists, and no rule
/// drops it.
fn takes_step(restore: &RestoreCheckpointConfig, stored: &dyn Stored) -> bool {
    let found = stored.shapes();
    let Some(shape) = found.get(STEP) else { return false };
    let needs = Shapes::from([(STEP.to_string(), shape.clone())]);
    let rest: Vec<String> = found.keys().cloned().collect();
    // An invalid plan is reported by the run, which knows the model's needs.
    restore.plan_part(stored, &needs, &rest).map_or(true, |plan| plan.sources.contains_key(STEP))
}
