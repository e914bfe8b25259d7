//! The root of a run over text files.

use crate::checkpoint::RestoreCheckpointConfig;
use crate::gin::{Configurable, Ref};
use crate::interactive::InteractiveModel;
use crate::session::check::{UnfitSpec, check_path, check_restore, unfit};

/// Predicts or scores the lines of text files with checkpoints. `gimlet t5_mesh_transformer` runs it. Source: mesh
/// `transformer/utils.py`, `infer_model` and `score_from_strings`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "gimlet.answer_files")]
pub struct AnswerFiles {
    /// The model, its lengths and batches; its own checkpoint has no effect.
    pub model: InteractiveModel,
    /// The checkpoints.
    pub restore_checkpoint_cfg: RestoreCheckpointConfig,
    /// The files, and what becomes of their lines.
    pub work: Ref<FileWork>,
}

/// The work on files.
#[derive(Clone, Debug, PartialEq, Configurable)]
pub enum FileWork {
    /// Predictions.
    Predict(PredictFile),
    /// Scores.
    Score(ScoreFiles),
}

/// Predicts from each line of a file. Source: mesh `transformer/utils.py`, `decode_from_file`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "gimlet.PredictFile")]
pub struct PredictFile {
    /// The inputs, one a line.
    pub input_file: String,
    /// The predictions, one a line, are in `{output_file}-{step}`.
    pub output_file: String,
    /// Predictions for each line.
    #[gin(default = 1)]
    pub repeats: usize,
}

/// Scores the lines of two files with one checkpoint. If one file has n times the lines of the other, each line of the
/// shorter inputs belongs to n targets in turn; a single target belongs to all inputs. Source: mesh
/// `transformer/utils.py`, `score_from_strings` and `save_scores`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "gimlet.ScoreFiles")]
pub struct ScoreFiles {
    /// The inputs, one a line.
    pub input_file: String,
    /// The targets, one a line.
    pub target_file: String,
    /// The log-likelihoods are in `{output_file}.scores`, one a line.
    pub output_file: String,
    /// Whether the texts, as the model reads them, are written to `.inputs` and `.targets`, and the numbers of tokens of
    /// the targets to `.lengths`.
    #[gin(default = true)]
    pub save_texts: bool,
}

impl AnswerFiles {
    /// Finds the first mistake that is visible in the spec alone.
    ///
    /// # Errors
    /// The first mistake.
    pub fn check(&self) -> Result<(), UnfitSpec> {
        self.model.check()?;
        check_restore(&self.restore_checkpoint_cfg, None, "answer_files")?;
        for (role, path) in self.files() {
            if path.is_empty() {
                return unfit(format!("{role} is empty, expected the path of a file"));
            }
            check_path(role, path)?;
        }
        match &self.work.0 {
            FileWork::Predict(work) if work.repeats == 0 => unfit(
                "there are 0 predictions for each line (decode_from_file.repeats), expected at least 1"
                    .to_string(),
            ),
            _ => Ok(()),
        }
    }

    /// The files, each with its role in messages.
    pub fn files(&self) -> Vec<(&'static str, &str)> {
        match &self.work.0 {
            FileWork::Predict(PredictFile { input_file, output_file, .. }) => {
                vec![("the file of inputs", input_file), ("the file of predictions", output_file)]
            }
            FileWork::Score(ScoreFiles { input_file, target_file, output_file, .. }) => vec![
                ("the file of inputs", input_file),
                ("the file of targets", target_file),
                ("the file of scores", output_file),
            ],
        }
    }
}
