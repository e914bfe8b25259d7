//! The checkpoint with which a run begins: the newest one of its MODEL_DIR, else the configured one. It is opened and
//! compared with the model here, for the run and for its dry run; its arrays are read elsewhere.

use crate::checkpoint::{
    CheckpointError, Plan, RUN_FILE, STEP, Shapes, Skipped, Stored, TARGET, arranged, plan_resume,
    restore_newest, upcycled,
};
use crate::data::DatasetState;
use crate::models::HUGGING_FACE;
use crate::session::error::SessionError;
use crate::session::given_rows::GivenParams;
use crate::session::state_layout::state_shapes;
use crate::storage::Path;
use crate::telemetry;

use super::initial::initial;
use super::record::{DATA_FILE, RunRecord, read_json};
use super::spec::Train;

/// An opened checkpoint, and the arrays that a run reads from it.
#[derive(Debug)]
pub struct Beginning {
    /// The checkpoint.
    pub stored: Box<dyn Stored>,
    /// The source of each array of the training state.
    pub plan: Plan,
    /// The run it belongs to; `None` if another run (or T5X) wrote it.
    pub record: Option<RunRecord>,
    /// The place in the data; `None` if the data start over.
    pub data: Option<DatasetState>,
}

impl Beginning {
    /// Compares a checkpoint of MODEL_DIR with the model.
    ///
    /// # Errors
    /// It holds another model, or is damaged.
    pub fn own(spec: &Train, stored: Box<dyn Stored>) -> Result<Self, SessionError> {
        let plan = plan_resume(stored.as_ref(), &needed(spec, stored.as_ref())?)?;
        let restore = spec.checkpoint_cfg.restore.as_ref();
        let reads_data = restore.and_then(|config| config.restore_dataset) != Some(false);
        let record = read_json(stored.as_ref(), RUN_FILE)?;
        let data = match reads_data {
            true => read_json(stored.as_ref(), DATA_FILE)?,
            false => None,
        };
        Ok(Self { stored, plan, record, data })
    }

    /// Opens the configured checkpoint, if there is one, and compares it with the model.
    ///
    /// # Errors
    /// It is missing, or holds another model.
    pub fn configured(spec: &Train) -> Result<Option<Self>, SessionError> {
        let Some(config) = &spec.checkpoint_cfg.restore else { return Ok(None) };
        let Some(stored) = initial(config, &spec.model)? else { return Ok(None) };
        let shapes = shapes(spec)?;
        let stored = upcycled(arranged(stored, &shapes), config, &shapes);
        let plan = config.plan(stored.as_ref(), &needed(spec, stored.as_ref())?)?;
        check_given(spec, Some(&plan))?;
        let data = match config.restore_dataset {
            Some(true) => Some(configured_data(stored.as_ref())?),
            Some(false) | None => None,
        };
        Ok(Some(Self { stored, plan, record: None, data }))
    }

    /// Returns the checkpoint with which a run begins, as far as it shows without its arrays.
    ///
    /// # Errors
    /// See [`Beginning::own`] and [`Beginning::configured`]; all checkpoints of MODEL_DIR are damaged.
    pub fn of(spec: &Train) -> Result<Option<Self>, SessionError> {
        let model_dir = Path::parse(&spec.model_dir)?;
        let own = newest_own(&model_dir, |stored| Self::own(spec, stored))?;
        if own.is_some() {
            return Ok(own);
        }
        let configured = Self::configured(spec)?;
        if configured.is_none() {
            check_given(spec, None)?;
        }
        Ok(configured)
    }

    /// Returns the step at which the run begins.
    ///
    /// # Errors
    /// The step cannot be read.
    pub fn step(&self) -> Result<u64, CheckpointError> {
        if self.plan.sources.contains_key(STEP) { self.stored.step() } else { Ok(0) }
    }
}

/// Calls `begin` for the newest checkpoint of MODEL_DIR, and for older ones while the newer ones are damaged; each of
/// those is warned of. `None` when there are no checkpoints.
///
/// # Errors
/// Those of `begin`, except damage; all are damaged.
pub fn newest_own<T>(
    model_dir: &Path,
    begin: impl FnMut(Box<dyn Stored>) -> Result<T, SessionError>,
) -> Result<Option<T>, SessionError> {
    let damage = |error: &SessionError| match error {
        SessionError::Checkpoint(error) => error.damage(),
        _ => None,
    };
    let mut skipped: Vec<Skipped> = Vec::new();
    let found = restore_newest((model_dir, HUGGING_FACE), &mut skipped, begin, damage);
    skipped.iter().for_each(|skipped| telemetry::warn_once(&skipped.to_string()));
    found
}

/// Checks the arrays that give the values of rows which no checkpoint has.
fn check_given(spec: &Train, plan: Option<&Plan>) -> Result<(), SessionError> {
    spec.model.anchor().map_or(Ok(()), |anchor| anchor.check())?;
    GivenParams::of(&spec.model).new_in(plan).check()
}

/// Returns the shape of every array of the training state.
fn shapes(spec: &Train) -> Result<Shapes, SessionError> {
    state_shapes(&spec.model).map_err(|error| SessionError::Unfit(error.to_string()))
}

/// Returns the arrays that the checkpoint must have. A checkpoint of step `reset_state_after` gives parameters and step
/// only, and the optimizer's state stays new.
fn needed(spec: &Train, stored: &dyn Stored) -> Result<Shapes, SessionError> {
    let mut needs = shapes(spec)?;
    if spec.reset_state_after.is_some_and(|reset| stored.step().is_ok_and(|step| step == reset)) {
        needs.retain(|name, _| name.starts_with(TARGET) || name == STEP);
        telemetry::notice_once(
            "the optimizer's state of the checkpoint is left behind, as train.reset_state_after says",
        );
    }
    Ok(needs)
}

/// Returns the place in the data that `restore_dataset` requests.
fn configured_data(stored: &dyn Stored) -> Result<DatasetState, SessionError> {
    read_json(stored, DATA_FILE)?.ok_or_else(|| {
        SessionError::Unfit(format!(
            "{} has no data position of Gimlet's (`{DATA_FILE}`); T5X's own belong to tf.data: set \
             utils.RestoreCheckpointConfig.restore_dataset = False",
            stored.path()
        ))
    })
}
