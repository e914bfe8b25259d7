//! Predictions and scores of whole text files, with one checkpoint after another, as Mesh TensorFlow's modes `infer` and
//! `score_from_strings` write them.

mod spec;

#[cfg(feature = "torch")]
mod run;

pub use spec::{AnswerFiles, FileWork, PredictFile, ScoreFiles};

#[cfg(feature = "torch")]
pub use run::answer_files;
