//! L5: `gimlet infer`: T5X's `infer`, which writes down a model's outputs for the examples of tasks.
//!
//! The spec, its checks and the choice of checkpoints are compiled without torch. `run` restores one checkpoint
//! after another, and `task` computes the outputs for one task, chunk by chunk; `files` has the names of results,
//! `lines` their format, `progress` how far an earlier process has come, and `results` what it has completed.

mod check;
mod files;
mod plan;
mod preflight;
mod progress;
mod results;
mod spec;

#[cfg(feature = "torch")]
mod chunks;
#[cfg(feature = "torch")]
mod lines;
#[cfg(feature = "torch")]
mod run;
#[cfg(feature = "torch")]
mod task;

pub use check::check;
pub use plan::{PlannedCheckpoint, planned};
pub use preflight::preflight;
pub use results::check_results;
pub use spec::Infer;

#[cfg(feature = "torch")]
pub use run::{Inferences, infer};
