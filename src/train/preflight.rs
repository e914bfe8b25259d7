//! Errors that would keep a run from starting, found by `--dry_run` and at the start of the run itself: without
//! libtorch, and without reading examples or arrays. Checkpoints are opened, vocabularies loaded and the modules of
//! Python tasks imported.

use crate::data::{DataError, DatasetOptions, TaskProvider};
use crate::session::check::folder_exists;
use crate::session::error::SessionError;
use crate::session::preflight::{Moment, PreflightData};
use crate::storage::Path;
use crate::telemetry;

use super::beginning::Beginning;
use super::inputs::training_options;
use super::periods::Periods;
use super::spec::Train;
use super::watched::warn_without_evaluation;

/// Returns the step at which a training would start.
///
/// # Errors
/// The errors of the training: a missing checkpoint or one of another model, a last step that has passed already; a
/// missing task, split, cache, module of Python or vocabulary; a vocabulary that differs from the model's or exceeds
/// its embedding; lengths that do not fit the tasks.
pub fn preflight(
    spec: &Train,
    tasks: &dyn TaskProvider,
    moment: Moment,
) -> Result<u64, SessionError> {
    warn_without_evaluation(spec);
    folder_exists("MODEL_DIR", &Path::parse(&spec.model_dir)?)?;
    let beginning = Beginning::of(spec)?;
    let step = beginning.as_ref().map_or(Ok(0), Beginning::step)?;
    let record = beginning.as_ref().and_then(|beginning| beginning.record.as_ref());
    Periods::of(spec, record.map_or(step, |record| record.first_step), step).validated(step)?;
    let data = |config| PreflightData { model: &spec.model, config, tasks, moment };
    let seed = record.map(|record| record.seed).or(spec.random_seed.map(i64::cast_unsigned));
    let options = training_options(spec, seed.unwrap_or(0));
    let resume = beginning.and_then(|beginning| beginning.data);
    data(&spec.train_dataset_cfg).batches(&DatasetOptions { resume, ..options })?;
    if let Some(config) = &spec.train_eval_dataset_cfg {
        tell(data(config).held_out_batches()?, moment);
    }
    if let Some(config) = &spec.infer_eval_dataset_cfg {
        tell(data(config).predictions(&spec.inference_evaluator_cls.0)?, moment);
    }
    if let Some(config) = &spec.after_training_dataset_cfg {
        tell(data(config).held_out_batches()?, moment);
        if spec.infer_eval_dataset_cfg.is_some() {
            tell(data(config).predictions(&spec.inference_evaluator_cls.0)?, moment);
        }
    }
    Ok(step)
}

/// Says that held-out data are missing; the run says so when it opens them.
fn tell(found: Result<(), DataError>, moment: Moment) {
    if let (Err(unknown), Moment::DryRun) = (found, moment) {
        telemetry::notice_once(&format!("{unknown}: it is not evaluated"));
    }
}
