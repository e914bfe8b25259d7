//! A run as its MODEL_DIR describes it.

use crate::checkpoint::{Listed, list};
use crate::models::HUGGING_FACE;
use crate::run::checkpoint::{failure, storage_failure};
use crate::run::failure::Failure;
use crate::session::start_record::{StartRecord, read_starts};
use crate::storage::{Path, StorageError};

use super::averages::add_averages;
use super::configuration::Configuration;
use super::folder::{FoundPoint, FoundRun};
use super::metrics::{Curves, TaskCurves, evaluation, training};
use super::predictions::{Predictions, predictions};

/// The evaluations that `t5_mesh_transformer` writes by default.
const MESH_EVALUATION: &str = "validation_eval/inference_eval";
/// The line of `model-info.txt` with the number of parameters.
const PARAMETERS: &str = "Total number of parameters: ";

/// Everything that is shown of a run.
pub struct RunData {
    /// Its folder.
    pub path: Path,
    /// The point of a sweep that it is.
    pub point: Option<FoundPoint>,
    /// Curves of the training.
    pub training: Curves,
    /// Curves of held-out batches, by task.
    pub training_eval: TaskCurves,
    /// Curves of the tasks' metrics, by task.
    pub inference_eval: TaskCurves,
    /// Held-out examples with their predictions, by task.
    pub predictions: Predictions,
    /// Its configuration.
    pub configuration: Configuration,
    /// Its checkpoints by step.
    pub checkpoints: Vec<Listed>,
    /// Its starts, the oldest first.
    pub starts: Vec<StartRecord>,
    /// The number of its parameters.
    pub num_parameters: Option<u64>,
    /// Parts that could not be read.
    pub skipped: Vec<String>,
}

impl RunData {
    /// Reads a MODEL_DIR, here or in a bucket, of a run that may still be at work.
    ///
    /// # Errors
    /// The storage fails.
    pub fn read(found: &FoundRun) -> Result<Self, Failure> {
        let mut run = Self::measured(found)?;
        let inference = run.path.join("inference_eval");
        run.predictions = predictions(&inference, &mut run.skipped).map_err(storage_failure)?;
        run.checkpoints = list(&run.path, HUGGING_FACE).map_err(failure)?;
        let evaluations = [&run.training_eval, &run.inference_eval];
        if run.training.is_empty() && evaluations.iter().all(|of| of.tasks.is_empty()) {
            run.skipped.push(format!("{} has no metrics yet", run.path));
        }
        Ok(run)
    }

    /// Reads everything but the checkpoints and the predictions.
    ///
    /// # Errors
    /// The storage fails.
    pub fn measured(found: &FoundRun) -> Result<Self, Failure> {
        let mut run = Self::read_files(found).map_err(storage_failure)?;
        run.configuration = Configuration::read(&run.path, &run.starts, &mut run.skipped);
        Ok(run)
    }

    fn read_files(found: &FoundRun) -> Result<Self, StorageError> {
        let FoundRun { path, point } = found.clone();
        let mut skipped = Vec::new();
        let training = training(&path.join("train"), &mut skipped)?;
        let mut training_eval = evaluation(&path.join("training_eval"))?;
        let mut inference_eval = evaluation(&path.join("inference_eval"))?;
        let mut of_mesh = evaluation(&path.join(MESH_EVALUATION))?;
        of_mesh.tasks.append(&mut inference_eval.tasks);
        of_mesh.skipped.append(&mut inference_eval.skipped);
        let mut inference_eval = of_mesh;
        skipped.append(&mut training_eval.skipped);
        skipped.append(&mut inference_eval.skipped);
        add_averages(&mut inference_eval);
        Ok(Self {
            training,
            training_eval,
            predictions: Predictions::new(),
            inference_eval,
            configuration: Configuration::default(),
            checkpoints: Vec::new(),
            starts: read_starts(&path)?,
            num_parameters: num_parameters(&path)?,
            path,
            point,
            skipped,
        })
    }

    /// The steps at which a process continued the run.
    pub fn restarts(&self) -> Vec<u64> {
        self.starts.iter().skip(1).map(|start| start.step).collect()
    }
}

fn num_parameters(folder: &Path) -> Result<Option<u64>, StorageError> {
    match folder.join("model-info.txt").read_to_string() {
        Err(error) if error.is_not_found() => Ok(None),
        text => {
            let text = text?;
            let number = text.lines().find_map(|line| line.strip_prefix(PARAMETERS));
            Ok(number.and_then(|number| number.trim().parse().ok()))
        }
    }
}
