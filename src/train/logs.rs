//! The logs of a run beside checkpoints: TensorBoard scalars, the same as JSON lines, `config.gin`, `model-info.txt`.

use std::collections::BTreeMap;

use crate::models::Model;
use crate::partition::Partitioner;
use crate::storage::{Path, Unsent};
use crate::telemetry::{self, EventWriter, MetricLines, config_markdown};

use super::error::TrainError;
use super::model_info::{Variable, model_info};
use super::spec::Train;
use super::state_layout::state_variables;
use super::window::Window;

/// The writer of a run's training metrics.
pub struct Logs {
    events: EventWriter,
    lines: MetricLines,
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
        let state = state_variables(&spec.model);
        let state = state.map_err(|error| TrainError::Unfit(error.to_string()))?;
        describe(model_dir, config_text, &describe_model(&spec.model, &state, &spec.partitioner))?;
        let folder = model_dir.join("train");
        let mut events = EventWriter::new(folder.clone(), Some(step as i64));
        events.text(step as i64, "config", &config_markdown(config_text));
        let lines = MetricLines::new(folder.join("metrics.jsonl"), step as i64);
        Ok(Self { events, lines })
    }

    /// Returns logged values that a store may not have yet.
    pub fn unsent(&self) -> impl Iterator<Item = Unsent> {
        [self.events.unsent(), self.lines.unsent()].into_iter().flatten()
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
        self.events.scalars(step as i64, scalars.clone());
        self.lines.scalars(step as i64, scalars);
    }
}

/// Writes `config.gin` and `model-info.txt`.
///
/// # Errors
/// The folder cannot be written.
pub fn describe(dir: &Path, config_text: &str, model_info: &str) -> Result<(), TrainError> {
    write_down(&dir.join("config.gin"), config_text)?;
    write_down(&dir.join("model-info.txt"), model_info)
}

/// Writes a text that every start of a run writes. If an earlier start wrote another text, that one
/// is kept as `config.gin.1`, `config.gin.2` and so on.
fn write_down(file: &Path, text: &str) -> Result<(), TrainError> {
    match file.read() {
        Ok(earlier) if earlier == text.as_bytes() => return Ok(()),
        Ok(earlier) => {
            let kept = free_name_beside(file)?;
            kept.write_atomic(&earlier)?;
            telemetry::notice(&format!("{file} has changed since the last start: see {kept}"));
        }
        Err(error) if error.is_not_found() => {}
        Err(error) => return Err(error.into()),
    }
    Ok(file.write_atomic(text.as_bytes())?)
}

fn free_name_beside(file: &Path) -> Result<Path, TrainError> {
    let mut number = 1;
    loop {
        let name = Path::parse(&format!("{file}.{number}"))?;
        if !name.exists()? {
            return Ok(name);
        }
        number += 1;
    }
}

/// Returns the text of `model-info.txt`, for a run with that state beside the parameters.
pub fn describe_model(model: &Model, state: &[Variable], partitioner: &Partitioner) -> String {
    let parameters: Vec<Variable> = model
        .param_tree()
        .into_iter()
        .map(|param| Variable { name: param.name, shape: param.shape, axes: param.axes })
        .collect();
    let Partitioner::Pjit(partitioner) = partitioner;
    model_info(&parameters, state, &partitioner.rules())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_earlier_start_wrote_is_kept_where_it_differs() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Path::try_from(dir.path()).unwrap();
        let file = folder.join("config.gin");
        ["a", "a", "b", "a"].iter().for_each(|text| write_down(&file, text).unwrap());
        let texts = |path: &Path| path.read_to_string().unwrap();
        let found: Vec<String> = folder.list().unwrap().iter().map(texts).collect();
        // config.gin, config.gin.1, config.gin.2
        assert_eq!(found, ["a", "a", "b"]);
    }
}
