//! The logs of a run beside checkpoints: TensorBoard scalars, the same as JSON lines, `config.gin`, `model-info.txt`.

use std::collections::BTreeMap;

use crate::session::describe::{describe, describe_model};
use crate::session::error::SessionError;
use crate::session::state_layout::state_variables;
use crate::storage::{Path, Unsent};
use crate::telemetry::{EventWriter, MetricLines, config_markdown};

use super::spec::Train;
use super::window::Window;

/// The writers of a run's training metrics.
pub struct Logs(Option<Writers>);

struct Writers {
    events: EventWriter,
    lines: MetricLines,
}

impl Logs {
    /// Returns the logs of a process that writes none, since the first does.
    pub fn none() -> Self {
        Self(None)
    }

    /// Writes `config.gin` and `model-info.txt`, and opens MODEL_DIR's training log at `step`.
    ///
    /// # Errors
    /// The folder cannot be written.
    pub fn start(
        spec: &Train,
        config_text: &str,
        model_dir: &Path,
        step: u64,
    ) -> Result<Self, SessionError> {
        let state = state_variables(&spec.model);
        let state = state.map_err(|error| SessionError::Unfit(error.to_string()))?;
        describe(model_dir, config_text, &describe_model(&spec.model, &state, &spec.partitioner))?;
        let folder = model_dir.join("train");
        let mut events = EventWriter::new(folder.clone(), Some(step as i64));
        events.text(step as i64, "config", &config_markdown(config_text));
        let lines = MetricLines::new(folder.join("metrics.jsonl"), step as i64);
        Ok(Self(Some(Writers { events, lines })))
    }

    /// Returns logged values that a store may not have yet.
    pub fn unsent(&self) -> impl Iterator<Item = Unsent> {
        self.0.iter().flat_map(|logs| [logs.events.unsent(), logs.lines.unsent()]).flatten()
    }

    /// Writes one number.
    pub fn scalar(&mut self, tag: &str, value: f64, step: u64) {
        self.scalars([(tag.to_string(), value)].into(), step);
    }

    /// Writes the metrics of a window that ended at `step`.
    pub fn window(&mut self, window: &Window, step: u64) {
        self.scalars(window.scalars(), step);
    }

    fn scalars(&mut self, scalars: BTreeMap<String, f64>, step: u64) {
        let Some(Writers { events, lines }) = &mut self.0 else { return };
        events.scalars(step as i64, scalars.clone());
        lines.scalars(step as i64, scalars);
    }
}
