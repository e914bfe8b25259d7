//! A run as its MODEL_DIR describes it.

use anyhow::anyhow;

use crate::checkpoint::{Listed, list};
use crate::models::HUGGING_FACE;
use crate::run::checkpoint::{failure, parse_path, storage_failure};
use crate::run::failure::Failure;
use crate::session::start_record::{StartRecord, read_starts};
use crate::storage::{Path, StorageError};

use super::configuration::Configuration;
use super::metrics::{Curves, TaskCurves, evaluation, training};
use super::predictions::{Predictions, predictions};

/// The folders and the file of which a run has at least one.
const PARTS: [&str; 4] = ["config.gin", "train", "training_eval", "inference_eval"];

/// The line of `model-info.txt` with the number of parameters.
const PARAMETERS: &str = "Total number of parameters: ";

/// Everything that is shown of a run.
pub struct RunData {
    /// Its folder.
    pub path: Path,
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
    /// The folder is not that of a run, or the storage fails.
    pub fn read(folder: &str) -> Result<Self, Failure> {
        let path = parse_path(folder)?;
        check(&path)?;
        let mut run = Self::read_files(path).map_err(storage_failure)?;
        run.configuration = Configuration::read(&run.path, &run.starts, &mut run.skipped);
        run.checkpoints = list(&run.path, HUGGING_FACE).map_err(failure)?;
        let evaluations = [&run.training_eval, &run.inference_eval];
        if run.training.is_empty() && evaluations.iter().all(|of| of.tasks.is_empty()) {
            run.skipped.push(format!("{} has no metrics yet", run.path));
        }
        Ok(run)
    }

    /// Reads everything but the configuration and the checkpoints.
    fn read_files(path: Path) -> Result<Self, StorageError> {
        let mut skipped = Vec::new();
        let training = training(&path.join("train"), &mut skipped)?;
        let mut training_eval = evaluation(&path.join("training_eval"))?;
        let inference = path.join("inference_eval");
        let mut inference_eval = evaluation(&inference)?;
        skipped.append(&mut training_eval.skipped);
        skipped.append(&mut inference_eval.skipped);
        Ok(Self {
            training,
            training_eval,
            predictions: predictions(&inference, &mut skipped)?,
            inference_eval,
            configuration: Configuration::default(),
            checkpoints: Vec::new(),
            starts: read_starts(&path)?,
            num_parameters: num_parameters(&path)?,
            path,
            skipped,
        })
    }

    /// The steps at which a process continued the run.
    pub fn restarts(&self) -> Vec<u64> {
        self.starts.iter().skip(1).map(|start| start.step).collect()
    }
}

/// Checks that a folder is that of a run.
fn check(path: &Path) -> Result<(), Failure> {
    let is_dir = path.is_dir().map_err(storage_failure)?;
    if !is_dir {
        let found =
            if path.exists().map_err(storage_failure)? { "is a file" } else { "does not exist" };
        return Err(Failure::usage(anyhow!("`{path}` {found}: expected the MODEL_DIR of a run")));
    }
    let entries = path.list().map_err(storage_failure)?;
    let is_part = |name: &str| PARTS.contains(&name) || name.starts_with("checkpoint_");
    if entries.iter().any(|entry| is_part(entry.file_name())) {
        return Ok(());
    }
    Err(Failure::usage(anyhow!(
        "`{path}` is not the MODEL_DIR of a run: it has none of {}, checkpoint_N; name the folder in \
         which they lie",
        PARTS.join(", ")
    )))
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
