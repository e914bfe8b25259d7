//! What a run writes down beside checkpoints: TensorBoard scalars, `config.gin`, `model-info.txt`.

use crate::partition::Partitioner;
use crate::storage::Path;
use crate::telemetry::{EventWriter, config_markdown};

use super::error::TrainError;
use super::model_info::{Variable, model_info};
use super::spec::Train;
use super::state_layout::state_variables;
use super::window::Window;

/// The writer of a run's training metrics.
pub struct Logs {
    events: EventWriter,
}

impl Logs {
    /// Writes `config.gin` and `model-info.txt`, and opens MODEL_DIR's training log at `step`.
    ///
    /// # Errors
    /// The folder cannot be written.
    pub fn start(
        spec: &Train,
        config_text: &str,
        model_dir: &Path,
        step: u64,
    ) -> Result<Self, TrainError> {
        model_dir.join("config.gin").write_atomic(config_text.as_bytes())?;
        let info = describe_model(spec)?;
        model_dir.join("model-info.txt").write_atomic(info.as_bytes())?;
        let mut events = EventWriter::new(model_dir.join("train").local()?, step as i64);
        events.text(step as i64, "config", &config_markdown(config_text));
        Ok(Self { events })
    }

    /// Writes one number.
    pub fn scalar(&mut self, tag: &str, value: f64, step: u64) {
        self.events.scalars(step as i64, [(tag, value)]);
    }

    /// Writes the metrics of a window that ended at `step`.
    pub fn window(&mut self, window: &Window, step: u64) {
        self.events.scalars(step as i64, window.scalars());
    }
}

/// The text of `model-info.txt`.
///
/// # Errors
/// A parameter that the optimizer's rules do not cover.
pub fn describe_model(spec: &Train) -> Result<String, TrainError> {
    let tree = spec.model.param_tree();
    let parameters: Vec<Variable> = tree
        .into_iter()
        .map(|param| Variable { name: param.name, shape: param.shape, axes: param.axes })
        .collect();
    let state = state_variables(&spec.model);
    let state = state.map_err(|error| TrainError::Unfit(error.to_string()))?;
    let Partitioner::Pjit(partitioner) = &spec.partitioner;
    Ok(model_info(&parameters, &state, &partitioner.rules()))
}
