//! The translation of a run of Mesh TensorFlow into statements for T5X's configurables.
//!
//! Constant parts of the translation are gin files of the library (`gimlet/mesh_tf/*.gin`), which a run includes before
//! the statements. Each statement knows the binding that it came from.

mod batch;
mod checkpoints;
mod evaluation;
mod given;
mod inference;
mod model;
mod optimizer;
mod passed;
mod schedule;
mod statements;
mod training;

use gimlet_gin::{Diagnostic, Loaded};

use super::read::{Meaning, Places};
use super::spec::{MODES, Run};
use crate::Statement;
use statements::Statements;

pub use given::{Given, Vocabularies, Vocabulary};

/// The command that a run becomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// `gimlet train`.
    Train,
    /// `gimlet eval`.
    Evaluate,
    /// Predictions or scores of text files.
    Files,
}

/// A run in Gimlet's own terms.
#[derive(Clone, Debug)]
pub struct Translation {
    /// The command.
    pub mode: Mode,
    /// Gin files of the library.
    pub files: Vec<String>,
    /// Statements after these files.
    pub statements: Vec<Statement>,
    /// Warnings of what means something else than its author may think.
    pub warnings: Vec<Diagnostic>,
}

/// Translates a run.
///
/// # Errors
/// Every part that has no counterpart here.
pub fn translate(
    meaning: &Meaning,
    loaded: &Loaded,
    given: &Given,
) -> Result<Translation, Vec<Diagnostic>> {
    let mut out = Statements::new(Places::new(loaded));
    let mode = match meaning.run.mode.as_str() {
        "train" => Some(Mode::Train),
        "eval" | "score_eval" | "perplexity_eval" => Some(Mode::Evaluate),
        "infer" | "score_from_strings" => Some(Mode::Files),
        _ => None,
    };
    let Some(mode) = mode else {
        let mode = &meaning.run.mode;
        out.refuse::<Run>(("", "mode"), unknown_mode(mode), mode_help(mode));
        return Err(out.mistakes);
    };
    let mut files = vec![model::translate(meaning, given, &mut out)];
    files.extend(match mode {
        Mode::Train => training::translate(meaning, given, &mut out),
        Mode::Evaluate => vec![evaluation::translate(meaning, given, &mut out)],
        Mode::Files => vec![inference::translate(meaning, given, &mut out)],
    });
    let files = files.into_iter().map(str::to_string).collect();
    passed::pass(&mut out);
    passed::warn(given, loaded, &mut out);
    match out.mistakes.is_empty() {
        true => Ok(Translation { mode, files, statements: out.statements, warnings: out.warnings }),
        false => Err(out.mistakes),
    }
}

fn unknown_mode(mode: &str) -> String {
    match MODES.contains(&mode) {
        true => format!("`run.mode = '{mode}'` is not a mode of this command"),
        false => format!("there is no mode '{mode}' of `run`"),
    }
}

fn mode_help(mode: &str) -> &'static str {
    match mode {
        "score_from_dataset" => {
            "`gimlet infer` with `infer.mode = 'score'` scores the targets of a task"
        }
        "export" | "export_score" | "export_infer" => "`gimlet export` writes models",
        _ => {
            "expected 'train', 'eval', 'score_eval', 'perplexity_eval', 'infer' or 'score_from_strings'"
        }
    }
}
